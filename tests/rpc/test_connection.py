"""A real connection over a network that breaks, and a driver that goes."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import grpc
import msgspec
import pytest

from asyncsearch.actions import Assign, CutWork, DismissWorker, SaveAt, StopTraining
from asyncsearch.errors import (
    ClusterError,
    DisconnectedError,
    MessageTooLargeError,
    ProtocolError,
    StaleLeaseError,
    UnauthenticatedError,
)
from asyncsearch.events import KILLED, Outcome, Reported, TrainingEnded
from asyncsearch.ids import NodeKey, TrialId, WorkerId
from asyncsearch.rpc.channel import Keepalive
from asyncsearch.rpc.messages import DriverMessage, LogLine, LogLines, StoreTokens
from asyncsearch.rpc.server import SearchServer
from asyncsearch.work import Lane, Stage, Work
from tests.rpc.proxy import FAIR, PATIENCE_S, Proxy, Weather
from tests.rpc.tools import AGENT, LEASE, Agent, Driver, RawStream, hello, hello_bytes, report
from tests.shares import takes_long

ATTACHED = ("attached", 3, 1, AGENT)
DETACHED = ("detached", 3, 1)


def stop(number: int) -> StopTraining:
    return StopTraining(LEASE, reason=str(number))


def be_impatient(agent: Agent) -> None:
    """Let an agent that is attached, however long that took, give up soon after it has lost its driver."""
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)
    agent.connection._reconnect_s = 0.1  # counts from the break, since a message was acknowledged before


def reasons(messages: list[DriverMessage]) -> list[int]:
    return [int(message.reason) for message in messages if isinstance(message, StopTraining)]


def test_messages_arrive_in_order_and_are_acknowledged(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    for resource in range(1, 101):
        agent.connection.send(report(resource))
    assert agent.connection.flush(PATIENCE_S)
    assert agent.connection.backlog == 0
    assert driver.handler.resources() == list(range(1, 101))
    assert [number for _, number, _ in driver.handler.messages.all] == list(range(1, 101))


def test_a_killed_process_reaches_the_driver_as_what_it_is(driver: Driver, attach: Callable[..., Agent]) -> None:
    end = TrainingEnded(LEASE, Outcome.FAILED, 4, 3, "its process was killed by SIGKILL from outside", KILLED)
    agent = attach()
    agent.connection.send(end)
    assert agent.connection.flush(PATIENCE_S)
    assert [message for _, _, message in driver.handler.messages.all] == [end]


def test_the_drivers_messages_are_delivered_in_order(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    for number in range(100):
        driver.send(stop(number))
    delivered = agent.delivered.wait(lambda items: len(items) == 100)
    assert reasons(delivered) == list(range(100))


def test_what_is_wished_of_running_work_arrives_as_it_was_sent(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    wishes: list[DriverMessage] = [SaveAt(LEASE, NodeKey("0f" * 16), 15, lane=2), CutWork(LEASE, 0), stop(1)]
    for wish in wishes:
        driver.send(wish)
    assert agent.delivered.wait(lambda items: len(items) == 3) == wishes


def test_a_message_may_be_sent_before_the_connection_is_open(driver: Driver) -> None:
    agent = Agent(driver.endpoint, hello())
    agent.connection.send(report(1))
    agent.connection.heartbeat()
    agent.connection.open()
    assert agent.connection.flush(PATIENCE_S)
    agent.connection.close()
    assert driver.handler.resources() == [1]


def test_tokens_come_first_and_again_to_all_workers_once_renewed(
    driver: Driver, proxy: Proxy, attach: Callable[..., Agent]
) -> None:
    first, second, renewed = StoreTokens(b"1"), StoreTokens(b"2"), StoreTokens(b"3")
    driver.call(lambda: driver.server.grant(first))
    driver.call(lambda: driver.server.grant(second))
    one = attach(proxy=proxy)
    driver.send(stop(1))
    assert one.delivered.wait(lambda items: len(items) == 2) == [second, stop(1)]
    proxy.cut()
    driver.call(lambda: driver.server.grant(renewed))
    other = attach(hello(worker=4))
    assert one.delivered.wait(lambda items: len(items) == 3)[2:] == [renewed]
    assert other.delivered.wait(bool) == [renewed]
    assert "3" not in repr(renewed)[:-1].replace("StoreTokens", "")


def test_heartbeats_are_told_and_not_numbered(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    agent.connection.heartbeat()
    driver.handler.told.wait_for(("heartbeat", 3, 1))
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)
    assert driver.handler.messages.all == [(3, 1, report(1))]


def test_nothing_is_acknowledged_before_the_driver_says_so(driver: Driver, attach: Callable[..., Agent]) -> None:
    driver.handler.acknowledges = False
    agent = attach()
    for resource in (1, 2, 3):
        agent.connection.send(report(resource))
    driver.handler.messages.wait(lambda messages: len(messages) == 3)
    assert not agent.connection.flush(0.05)
    driver.call(lambda: driver.server.acknowledge(WorkerId(3), 1, 2))
    assert not agent.connection.flush(0.05)
    assert agent.connection.backlog == 1
    driver.call(lambda: driver.server.acknowledge(WorkerId(3), 1, 3))
    assert agent.connection.flush(PATIENCE_S)


def test_a_cut_stream_is_attached_again_and_nothing_is_lost_or_doubled(
    driver: Driver, proxy: Proxy, attach: Callable[..., Agent], capfd: pytest.CaptureFixture[str]
) -> None:
    agent = attach(proxy=proxy)
    sent = 0
    for cut in range(5):
        for _ in range(50):
            sent += 1
            agent.connection.send(report(sent))
            driver.send(stop(sent))
        proxy.cut()
        driver.handler.told.wait_for(ATTACHED, times=cut + 2)
    assert agent.connection.flush(PATIENCE_S)
    assert driver.handler.resources() == list(range(1, sent + 1))
    assert reasons(agent.delivered.wait(lambda items: len(items) >= sent)) == list(range(1, sent + 1))
    assert agent.ends.all == []
    assert capfd.readouterr() == ("", "")


def test_what_the_driver_says_while_a_worker_is_away_waits_for_it(
    driver: Driver, proxy: Proxy, attach: Callable[..., Agent]
) -> None:
    agent = attach(proxy=proxy)
    proxy.cut()
    driver.handler.told.wait_for(DETACHED)
    driver.send(stop(1))
    assert reasons(agent.delivered.wait(bool)) == [1]


def test_a_half_open_connection_is_found_and_replaced() -> None:
    keepalive = Keepalive(every_s=0.2, timeout_s=0.2)
    quick = Driver(keepalive=keepalive)
    proxy = Proxy(quick.port)
    agent = Agent(quick.identity.endpoint(proxy.address), hello(), keepalive=keepalive)
    agent.connection.open()
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)
    proxy.swallow()
    agent.connection.send(report(2))
    quick.send(stop(1))
    assert agent.connection.flush(PATIENCE_S)
    assert quick.handler.resources() == [1, 2]
    assert reasons(agent.delivered.wait(bool)) == [1]
    agent.connection.close()
    quick.stop()
    proxy.close()


def test_a_new_stream_replaces_one_that_the_driver_still_takes_for_alive(
    driver: Driver, attach: Callable[..., Agent]
) -> None:
    half_open = RawStream(driver.endpoint)
    status: list[object] = []
    thread = threading.Thread(target=lambda: status.extend(half_open.say(hello_bytes())))
    thread.start()
    driver.handler.told.wait_for(ATTACHED)
    agent = attach()
    thread.join(PATIENCE_S)
    assert status == [grpc.StatusCode.UNAVAILABLE, "Another stream of this worker has taken over."]
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)
    assert driver.handler.resources() == [1]
    assert driver.handler.told.all[:2] == [ATTACHED, ATTACHED]
    assert DETACHED not in driver.handler.told.all
    half_open.close()


def test_a_higher_epoch_replaces_the_session_and_the_older_one_is_refused(
    driver: Driver, attach: Callable[..., Agent]
) -> None:
    older = attach()
    attach(hello(epoch=2, agent="agent-b"))
    assert driver.handler.told.all[:3] == [ATTACHED, ("attached", 3, 2, "agent-b"), DETACHED]
    error = older.end()
    assert isinstance(error, StaleLeaseError)
    assert "epoch 2 is held by agent-b" in str(error)


def test_a_disconnected_worker_gets_its_last_messages_then_is_refused(
    driver: Driver, attach: Callable[..., Agent]
) -> None:
    agent = attach()
    dismissal = DismissWorker(WorkerId(3), 1, "silent too long")

    def dismiss() -> None:
        driver.server.send(WorkerId(3), 1, dismissal)
        driver.server.disconnect(WorkerId(3), 1, "it was silent too long")

    driver.call(dismiss)
    error = agent.end()
    assert agent.delivered.all == [dismissal]
    assert isinstance(error, StaleLeaseError)
    assert str(error) == "worker-3, epoch 1, was disconnected: it was silent too long"
    assert DETACHED not in driver.handler.told.all
    with pytest.raises(StaleLeaseError, match="epoch 1 ended: it was silent too long"):
        attach(hello(agent="agent-b"))


def test_messages_to_a_launch_that_is_over_are_dropped(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach(hello(epoch=2))
    driver.send(stop(1), epoch=1)
    driver.call(lambda: driver.server.acknowledge(WorkerId(3), 1, 99))
    driver.send(stop(2), epoch=2)
    assert reasons(agent.delivered.wait(bool)) == [2]


def test_a_worker_that_never_acknowledges_is_let_go(
    driver: Driver, attach: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.rpc.sessions._OUTBOX_LIMIT", 3)
    agent = attach()
    for number in range(3):
        driver.send(stop(number))
    assert "left 3 messages unacknowledged" in str(agent.end())
    driver.handler.told.wait_for(DETACHED)


def test_a_stopped_driver_ends_its_workers_without_an_error(
    driver: Driver, attach: Callable[..., Agent], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    agents = [attach(hello(worker=worker)) for worker in range(5)]
    for worker in range(5):
        driver.send(stop(worker), worker=worker)
    driver.stop()
    assert [agent.end() for agent in agents] == [None] * 5
    assert [reasons(agent.delivered.all) for agent in agents] == [[0], [1], [2], [3], [4]]
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_a_driver_stops_though_a_worker_does_not_answer(
    driver: Driver, proxy: Proxy, attach: Callable[..., Agent], capfd: pytest.CaptureFixture[str]
) -> None:
    agent = attach(proxy=proxy)
    be_impatient(agent)
    proxy.swallow()
    driver.send(stop(1))
    driver.stop()
    proxy.close()
    assert isinstance(agent.end(), DisconnectedError)
    assert capfd.readouterr() == ("", "")


def test_a_closed_connection_ends_without_an_error(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    agent.connection.close()
    assert agent.ends.all == [None]
    driver.handler.told.wait_for(DETACHED)


def test_a_connection_may_be_closed_from_its_own_thread(driver: Driver) -> None:
    ended = threading.Event()
    agent = Agent(driver.endpoint, hello())
    connection = agent.connection
    connection._deliver = lambda message: connection.close()
    connection._closed = lambda error: ended.set()
    connection.open()
    driver.send(stop(1))
    assert ended.wait(PATIENCE_S)


def test_an_error_while_delivering_ends_the_connection_with_it(driver: Driver) -> None:
    agent = Agent(driver.endpoint, hello())
    bug = ZeroDivisionError("a bug")

    def fail(message: DriverMessage) -> None:
        raise bug

    agent.connection._deliver = fail
    agent.connection.open()
    driver.send(stop(1))
    assert agent.end() is bug


def test_patience_ends_with_an_error_that_names_address_and_remedy(
    driver: Driver, proxy: Proxy, attach: Callable[..., Agent]
) -> None:
    agent = attach(proxy=proxy)
    be_impatient(agent)
    proxy.close()
    error = agent.end()
    assert isinstance(error, DisconnectedError)
    assert proxy.address in str(error)
    assert "firewall" in str(error)


def test_opening_without_a_driver_names_the_address(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    agent = Agent(driver.identity.endpoint(f"127.0.0.1:{port}"), hello(), reconnect_s=0.2)
    with pytest.raises(DisconnectedError, match=f"127.0.0.1:{port}"):
        agent.connection.open()
    assert agent.ends.all == []


def test_opening_where_nobody_answers_ends(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        agent = Agent(driver.identity.endpoint(f"127.0.0.1:{deaf.getsockname()[1]}"), hello(), reconnect_s=0.3)
        with pytest.raises(DisconnectedError, match="no answer within"):
            agent.connection.open()


def test_opening_with_the_secrets_of_another_driver_is_final(driver: Driver) -> None:
    other = Driver()
    endpoint = other.identity.endpoint(driver.endpoint.address)
    with pytest.raises(DisconnectedError, match="could not be reached"):
        Agent(endpoint, hello(), reconnect_s=0.2).connection.open()
    forged = msgspec.structs.replace(driver.endpoint, token=endpoint.token)
    with pytest.raises(UnauthenticatedError, match="The token is wrong"):
        Agent(forged, hello()).connection.open()
    other.stop()


def test_opening_a_stale_launch_is_final(driver: Driver, attach: Callable[..., Agent]) -> None:
    driver.handler.refused_epoch = 1
    with pytest.raises(StaleLeaseError, match="epoch 1 is over"):
        attach()


def test_a_message_over_the_limit_is_refused_where_it_is_made(driver: Driver, attach: Callable[..., Agent]) -> None:
    agent = attach()
    large = LogLines(LEASE, (LogLine(1.0, "x" * 5_000),) * 1_000)
    with pytest.raises(MessageTooLargeError, match="LogLines: 50"):
        agent.connection.send(large)
    stage = Stage(NodeKey("0" * 32), {"text": "x" * 5_000_000}, (TrialId(0),), seed=0)
    with pytest.raises(MessageTooLargeError, match="Assign"):
        driver.send(Assign(Work(LEASE, (Lane((stage,)),))))
    with pytest.raises(ProtocolError, match="resource: 0"):
        agent.connection.send(Reported(LEASE, 0, {}))
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)


def test_a_taken_port_is_an_error_that_names_it(driver: Driver) -> None:
    other = Driver()
    with pytest.raises(ClusterError, match=f"cannot listen at 127.0.0.1:{driver.port}"):
        other.run(SearchServer(other.handler, other.identity).start("127.0.0.1", driver.port))
    other.stop()


FORKED = """
import os, sys
if os.fork() == 0:  # as a worker of pyspark, which is forked before anything imports gRPC
    import msgspec
    from asyncsearch.rpc.client import Connection
    from asyncsearch.rpc.messages import Endpoint
    from tests.rpc.tools import hello, report
    endpoint = msgspec.json.decode(sys.stdin.buffer.read(), type=Endpoint)
    connection = Connection(endpoint, hello(), deliver=print, closed=lambda error: None)
    connection.open()
    connection.send(report(1))
    is_done = connection.flush(300)
    connection.close()
    os._exit(0 if is_done else 1)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_process_attaches(driver: Driver) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], input=msgspec.json.encode(driver.endpoint), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert driver.handler.resources() == [1]


SERVED = """
import logging
from asyncsearch.rpc.client import Connection
from tests.rpc.tools import Driver, Happenings, hello, report
driver = Driver()
ended = Happenings()
connections = [Connection(driver.endpoint, hello(worker), deliver=print, closed=ended.add) for worker in range(5)]
for connection in connections:
    connection.open()
    connection.send(report(1))
driver.stop()
ended.wait_for(None, times=5)
"""


def test_a_process_that_serves_ends_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_the_package_imports_no_grpc() -> None:
    code = "import asyncsearch.rpc.messages, sys; sys.exit('grpc' in sys.modules or 'google' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_worker_needs_no_cryptography() -> None:
    code = "import asyncsearch.rpc.client, sys; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.3, pytest.param(2.0, marks=takes_long)])
def test_a_worker_attaches_through_a_network_that_is_slow_from_the_start(driver: Driver, delay_s: float) -> None:
    proxy = Proxy(driver.port, Weather(delay_s=delay_s))
    agent = Agent(driver.identity.endpoint(proxy.address), hello())
    agent.connection.open()
    agent.connection.send(report(1))
    assert agent.connection.flush(PATIENCE_S)
    assert driver.handler.resources() == [1]
    proxy.set(FAIR)
    agent.connection.close()
    proxy.close()
