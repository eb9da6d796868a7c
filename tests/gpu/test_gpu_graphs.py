"""CUDA graphs, streams and threads: the launch keeps to torch's current stream and allocates nothing."""

import threading

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import run_case
from gpu_plans import PLANS, judge, refill, run

from cake_tune.cuda import loader


def captured(case, inputs, calls=1):
    """A graph of ``calls`` calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run_case(case, inputs)
    return graph


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_replay_reads_changed_inputs(case, device):
    """A captured call replayed on new numbers gives what an eager call gives on them, bit for bit."""
    inputs = make_inputs(case, device)
    run(case, inputs)
    graph = captured(case, inputs)
    for seed in range(3):
        refill(inputs, seed)
        inputs.poison()
        graph.replay()
        replayed = inputs.output.clone(), inputs.out_lse.clone()
        judge(inputs, *replayed)
        assert all(torch.equal(one, other) for one, other in zip(replayed, run(case, inputs), strict=True))


def test_calls_in_one_graph_share_their_scratch(device):
    """Each of several calls in a graph waits for the one before it, whose scratch it overwrites."""
    case = PLANS[4]
    every = [make_inputs(case, device) for _ in range(6)]
    for seed, inputs in enumerate(every):
        refill(inputs, seed)
        inputs.mid_out, inputs.mid_lse = every[0].mid_out, every[0].mid_lse
    expected = [run(case, inputs) for inputs in every]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for inputs in every:
            run_case(case, inputs)
    for _ in range(20):
        for inputs in every:
            inputs.poison()
        graph.replay()
        for inputs, (output, lse) in zip(every, expected, strict=True):
            assert torch.equal(inputs.output, output)
            assert torch.equal(inputs.out_lse, lse)


@pytest.mark.parametrize("case", [PLANS[1], PLANS[7]], ids=str)
def test_first_call_may_be_captured(case, device):
    """A kernel that was never loaded loads inside a capture without breaking it."""
    inputs = make_inputs(case, device)
    expected = run(case, inputs)
    loader._loaded.clear()
    graph = captured(case, inputs)
    inputs.poison()
    graph.replay()
    assert torch.equal(inputs.output, expected[0])
    assert torch.equal(inputs.out_lse, expected[1])


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_calls_allocate_nothing(case, device):
    """Not a byte is asked of torch's allocator or of the device."""
    inputs = make_inputs(case, device)
    run(case, inputs)
    torch.cuda.synchronize()
    asked, (free, _) = torch.cuda.memory_stats()["allocation.all.allocated"], torch.cuda.mem_get_info()
    for _ in range(10):
        run_case(case, inputs)
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == asked
    assert torch.cuda.mem_get_info()[0] == free


def test_a_call_waits_for_its_stream_only(device):
    """On a side stream the call sees what that stream wrote before it, and a later read there sees its result."""
    case = PLANS[1]
    inputs = make_inputs(case, device)
    expected = run(case, inputs)
    query, wrong = inputs.q.clone(), torch.zeros_like(inputs.q)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            inputs.q.copy_(wrong)
            torch.cuda._sleep(200_000)
            inputs.q.copy_(query)
            inputs.poison()
            run_case(case, inputs)
            output = inputs.output.clone()
    stream.synchronize()
    assert torch.equal(output, expected[0])


def test_concurrent_streams_do_not_disturb_each_other(device):
    """Different calls interleaved on several streams, each with its own scratch, give what each gives alone."""
    cases = PLANS * 2
    every = [make_inputs(case, device) for case in cases]
    expected = [run(case, inputs) for case, inputs in zip(cases, every, strict=True)]
    for inputs in every:
        inputs.poison()
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in every]
    for _ in range(30):
        for case, inputs, stream in zip(cases, every, streams, strict=True):
            with torch.cuda.stream(stream):
                run_case(case, inputs)
    torch.cuda.synchronize()
    for inputs, (output, lse) in zip(every, expected, strict=True):
        assert torch.equal(inputs.output, output)
        assert torch.equal(inputs.out_lse, lse)


@pytest.mark.parametrize("own_streams", [True, False], ids=["own streams", "default stream"])
def test_threads_launch_side_by_side(device, own_streams):
    """Threads that never made a CUDA call launch at once, with arguments of their own."""
    cases = PLANS[:4]
    every = [make_inputs(case, device) for case in cases]
    expected = [run(case, inputs) for case, inputs in zip(cases, every, strict=True)]
    for inputs in every:
        inputs.poison()
    torch.cuda.synchronize()
    failures = []

    def work(case, inputs):
        try:
            stream = torch.cuda.Stream() if own_streams else torch.cuda.default_stream()
            with torch.cuda.stream(stream):
                for _ in range(200):
                    run_case(case, inputs)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cases, every, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failures
    for inputs, (output, lse) in zip(every, expected, strict=True):
        assert torch.equal(inputs.output, output)
        assert torch.equal(inputs.out_lse, lse)
