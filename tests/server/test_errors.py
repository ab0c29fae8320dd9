"""Every reason has a status, and any gRPC client can read it."""

import pytest
from grpc import StatusCode

from kvquarry.v1alpha import status_pb2
from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_server import faults
from kvquarry_server.errors import ERROR_DOMAIN, STATUS_OF, wire_error
from kvquarry_server.faults import ServiceError, ServiceReason, WorkerMismatch


def leaves(error: type[ServiceError]) -> set[type[ServiceError]]:
    children = error.__subclasses__()
    return set().union(*(leaves(child) for child in children)) if children else {error}


def test_the_table_is_total_over_all_reasons() -> None:
    assert set(STATUS_OF) == {*Reason, *ServiceReason}
    assert StatusCode.OK not in STATUS_OF.values()


def test_every_reason_of_the_service_has_one_exception_and_the_tree_shows_it() -> None:
    reasons = [error.reason for error in leaves(ServiceError)]
    assert sorted(reasons, key=str) == sorted(ServiceReason, key=str)
    assert faults.__doc__ is not None
    assert all(error.__name__ in faults.__doc__ for error in leaves(ServiceError))


def test_reasons_of_core_and_service_never_share_a_name() -> None:
    assert not {reason.value for reason in Reason} & {reason.value for reason in ServiceReason}


def test_google_s_own_status_decodes_ours() -> None:
    status_types = pytest.importorskip("google.rpc.status_pb2")
    info_types = pytest.importorskip("google.rpc.error_details_pb2")
    error = wire_error(WorkerMismatch("ranks differ"), rank="1")
    status = status_types.Status.FromString(error.details())
    assert status.code == StatusCode.FAILED_PRECONDITION.value[0]
    assert status.message == "ranks differ"
    info = info_types.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (
        "WORKER_MISMATCH",
        ERROR_DOMAIN,
        {"rank": "1"},
    )


def test_our_own_status_decodes_it_as_well() -> None:
    error = wire_error(UsageError(Reason.INVALID_ARGUMENT, "no"))
    status = status_pb2.StatusDetails.FromString(error.details())
    info = status_pb2.ErrorInfo.FromString(status.details[0].value)
    assert (status.code, info.reason) == (3, "INVALID_ARGUMENT")


@pytest.mark.parametrize("letter", ["x", "ä", "\N{PILE OF POO}"])
def test_a_long_message_is_cut_between_characters(letter: str) -> None:
    message = wire_error(UsageError(Reason.INVALID_ARGUMENT, letter * 5000)).message
    assert len(message.encode()) < 1100
    assert set(message.removesuffix(" ...")) == {letter}


def test_who_asks_for_a_policy_that_is_not_there_hears_which_kind_and_which_there_are() -> None:
    error = wire_error(UnknownPolicy("retention", "powers", ("dense", "last")))
    assert error.reason is Reason.UNKNOWN_POLICY
    assert error.metadata == {"policy_kind": "retention", "offered": "dense, last"}
