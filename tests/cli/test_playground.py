"""The playground: its numbers are those of the queries, its server refuses other sites, and the page works in Chromium."""

import http.client
import json
import re
import shutil
import subprocess
import threading
from urllib.parse import urlsplit

import pytest
import torch
from counting import HANGS

import tractile as tt
from tractile.cli.playground.server import MOST_BYTES, PAGE, PlaygroundServer
from tractile.cli.playground.session import Session
from tractile.lm import CircuitLM

PROMPT, BUDGET, PATTERN = "Tom has a pet. It is", 12, " a (dog|cat)( and a (dog|cat))?"


@pytest.fixture(scope="module")
def parts():
    model, tokenizer = tt.embedded.load_lm()
    return (
        tt.TransformersLM(model, tokenizer),
        tt.Vocabulary.from_tokenizer(tokenizer),
        tt.embedded.load_hmm(),
    )


@pytest.fixture
def session(parts):
    session = Session(*parts)
    session.open("regex", PATTERN, PROMPT, BUDGET)
    return session


def test_numbers_are_those_of_the_queries(parts, session):
    lm, vocab, hmm = parts
    fa = tt.constraints.regex(PATTERN).compile(vocab)
    mask, guided, free = tt.gcd(fa, BUDGET).start(1), tt.pgcd(hmm, fa, BUDGET).start(1), CircuitLM(hmm)
    free.start([[]])
    tokens = []
    while not (view := session.view(tokens))["finished"]:
        allowed = mask.mask()[0]
        tables = session.log_tables()
        assert tables["mask"].isfinite().equal(allowed)
        assert view["allowed"] == int(allowed.sum())
        lm.start([PROMPT])
        for token in tokens:
            lm.advance(torch.tensor([token]))
        p_lm = lm.log_probs()[0].double()
        torch.testing.assert_close(tables["lm"], p_lm, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(tables["hmm"], free.log_probs()[0].double())
        torch.testing.assert_close(tables["given"], guided.scores()[0].double())
        torch.testing.assert_close(tables["success"], guided.lookahead()[0].double())
        product = p_lm + guided.lookahead()[0].double()
        torch.testing.assert_close(tables["guided"], product - product.logsumexp(0), atol=1e-4, rtol=1e-4)
        assert view["log_success"] == pytest.approx(float(guided.log_lookahead()[0]))
        shown = {c["token"]: c for c in view["candidates"]}
        assert int(tables["guided"].argmax()) == view["candidates"][0]["token"]
        assert all(c["allowed"] == bool(allowed[t]) for t, c in shown.items())
        tokens.append(session.draw(tokens)["token"])
        for query in (mask, guided, free):
            query.advance(torch.tensor(tokens[-1:]))
    assert tt.constraints.regex(PATTERN).accepts(view["text"])


def test_going_back_shows_what_was_there(session):
    first = session.view([])
    token = first["candidates"][0]["token"]
    second = session.view([token])
    assert second["left"] == BUDGET - 1
    assert session.view([]) == first
    assert session.view([token]) == second


def rounded(view):
    """A view without the last digits of its probabilities, which depend on how many rows a model reads together."""
    return json.loads(json.dumps(view), parse_float=lambda digits: round(float(digits), 9))


def test_particles_leave_the_text_where_it_is(session):
    token = session.view([])["candidates"][0]["token"]
    before = session.view([token])
    run = session.particles(6, seed=2)
    assert rounded(session.view([token])) == rounded(before)
    post = tt.smc(
        session.lm,
        PROMPT,
        session._fa,
        tt.inference.smc.LookaheadProposal(1.0),
        session.hmm,
        6,
        BUDGET,
        seed=2,
    )
    assert [(p["text"], p["weight"]) for p in run["final"]] == [(p.text, p.weight) for p in post.particles]
    assert run["log_evidence"] == pytest.approx(post.log_evidence)
    assert run["best"] == post.best.text
    assert all(sum(p["weight"] for p in step["particles"]) == pytest.approx(1) for step in run["steps"])
    assert {p["text"] for p in run["steps"][-1]["particles"]} >= {p["text"] for p in run["final"]}


def test_the_picture_follows_the_text(session):
    graph = session.open("choice", " a dog\n a cat", PROMPT, BUDGET)["automaton"]
    assert len(graph["edges"]) == 9
    assert [state["accepts"] for state in graph["states"]].count(True) == 1
    at = session.view([])["states"]
    assert [graph["states"][n]["level"] for n in at] == [0]
    tokens = []
    while not (view := session.view(tokens))["finished"]:
        tokens.append(session.draw(tokens)["token"])
    assert [graph["states"][n]["accepts"] for n in view["states"]] == [True]
    wide = Session(session.lm, session.vocab).open("regex", "[a-z]{70}", PROMPT, 80)
    assert wide["automaton"] is None


def test_lazy_constraints_and_no_hmm(parts):
    lm, vocab, _ = parts
    session = Session(lm, vocab)
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    opened = session.open("json_schema", json.dumps(schema), PROMPT, 16)
    assert not opened["hmm"]
    view = session.view([])
    assert view["log_success"] is None
    tables = session.log_tables()
    expected = tables["lm"].masked_fill(tables["mask"].isneginf(), -torch.inf)
    torch.testing.assert_close(tables["guided"], expected - expected.logsumexp(0))
    with pytest.raises(tt.errors.EvidenceError, match="needs an HMM"):
        session.particles(2)
    assert set(json.loads(session.particles(2, proposal="gcd")["best"])) == {"n"}
    coarse = Session(*parts).open("json_schema", json.dumps(schema), PROMPT, 16)
    assert coarse["coarse"]


@pytest.mark.parametrize(
    ("kind", "text", "budget", "error"),
    [
        ("regex", "(", 12, tt.errors.UnsupportedConstraint), ("regex", "[a-z]{40}", 3, tt.errors.BudgetTooSmall),
        ("regex", "[a&&b]", 0, tt.errors.EvidenceError), ("regex", "a", 100_000, tt.errors.EvidenceError),
        ("regex", 7, 12, tt.errors.FormatError), ("json_schema", "{", 12, tt.errors.FormatError),
        ("json_schema", "[" * 100_000, 12, tt.errors.FormatError), ("json_schema", "[]", 12, tt.errors.UnsupportedConstraint),
        ("file", "/etc/passwd", 12, tt.errors.FormatError), ("regex", "(a{1,900}){1,900}", 12, tt.errors.TooManyStates),
    ],
)  # fmt: skip
def test_bad_constraints_are_typed_errors(session, kind, text, budget, error):
    with pytest.raises(error):
        session.open(kind, text, PROMPT, budget)


def test_bad_tokens_are_typed_errors(session, parts):
    for tokens in ([-1], [10**9], ["a"], [session.vocab.eos_token_id]):
        with pytest.raises(tt.errors.EvidenceError):
            session.view(tokens)
    with pytest.raises(tt.errors.EvidenceError, match="open a constraint"):
        Session(*parts).view([])


@pytest.fixture(scope="module")
def server(parts):
    with PlaygroundServer(Session(*parts)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def call(server, method, name, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=HANGS)
    connection.request(method, name, body, headers or {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def test_requests_are_those_of_the_session(server):
    path = urlsplit(server.url).path
    asked = {"kind": "regex", "text": PATTERN, "prompt": PROMPT, "budget": BUDGET}
    answer, data = call(server, "POST", path + "open", json.dumps(asked))
    assert answer.status == 200
    assert json.loads(data)["fewest"] >= 2
    _, data = call(server, "POST", path + "view", '{"tokens": []}')
    assert json.loads(data) == server.session.view([])
    assert call(server, "GET", path + "run")[0].status == 404
    _, data = call(server, "POST", path + "particles", '{"particles": 3}')
    assert len(json.loads(data)["final"]) == 3
    assert (
        b"<svg" in call(server, "GET", path + "run")[1]
        or b"particles" in call(server, "GET", path + "run")[1]
    )


def test_refusals_say_why(server):
    path = urlsplit(server.url).path
    for name, body, words in [
        ("open", '{"kind": "regex", "text": "(", "prompt": "", "budget": 4}', "position 0"),
        ("open", '{"kind": "regex"}', "text"),
        ("view", '{"tokens": 3}', "list of token ids"),
        ("view", "[]", "object"),
        ("view", "{", "JSON"),
        ("view", "[" * 100_000, "JSON"),
    ]:
        answer, data = call(server, "POST", path + name, body)
        assert answer.status == 400
        assert words in json.loads(data)["error"]


@pytest.mark.parametrize("length", ["\u00b2", "-1", "+2", "1_0", "0x2", " ", "9" * 5000])
def test_a_length_that_is_no_number_is_refused(server, length):
    headers = {"Content-Type": "application/json", "Content-Length": length}
    answer, data = call(server, "POST", urlsplit(server.url).path + "view", None, headers)
    assert answer.status == 400
    assert "at most 1,000,000 bytes" in json.loads(data)["error"]


def test_other_sites_are_refused(server):
    path = urlsplit(server.url).path
    good = '{"tokens": []}'
    assert server.server_address[0] == "127.0.0.1"
    assert call(server, "GET", "/")[0].status == 404
    assert call(server, "GET", "/wrong-key/")[0].status == 404
    assert call(server, "POST", "/%FF/view", good)[0].status == 404
    headers = {"Content-Type": "application/json", "Host": "evil.example"}
    assert call(server, "POST", path + "view", good, headers)[0].status == 404
    assert call(server, "POST", path + "view", good, {"Content-Type": "text/plain"})[0].status == 400
    too_long = {"Content-Type": "application/json", "Content-Length": str(MOST_BYTES + 1)}
    assert call(server, "POST", path + "view", None, too_long)[0].status == 400
    json_type, port = {"Content-Type": "application/json"}, server.server_port
    for origin in ("http://evil.example", f"https://127.0.0.1:{port}", "http://127.0.0.1:1", "null", ""):
        for method, name in (("POST", "view"), ("GET", "")):
            answer, _ = call(server, method, path + name, good, json_type | {"Origin": origin})
            assert answer.status == 404, origin
    for origin in (f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
        assert call(server, "POST", path + "view", "[]", json_type | {"Origin": origin})[0].status == 400
    answer, page = call(server, "GET", path)
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    assert not re.search(rb"(src|href)=\"?https?:", page)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_the_page_works_in_a_browser(server, tmp_path):
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=8000",
    ]

    def page(query):
        command = ["chromium", *flags, "--dump-dom", server.url + query]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True).stdout

    good = page("?particles=1&text=+a+(dog|cat)&budget=6")
    for part in ('data-ready="yes"', "effective sample size", '<p id="error" role="alert"></p>', "<circle"):
        assert part in good
    assert re.search(r"The constraint allows \d+ of 1,024 tokens", good)
    assert re.search(r'<p id="error" role="alert">[^<]*position 0', page("?text=(&budget=6"))


def test_a_text_is_explained(session, server):
    session.open("regex", PATTERN, PROMPT, BUDGET)
    found = session.explain(" a cow")
    assert (found["accepted"], found["at"], found["before"], found["found"]) == (False, 4, " a c", "o")
    assert "could stand there: 'at" in found["shown"]
    assert session.explain(" a dog")["shown"] == "satisfies the constraint"
    with pytest.raises(tt.errors.FormatError):
        session.explain(3)
    path, asked = (
        urlsplit(server.url).path,
        {"kind": "regex", "text": PATTERN, "prompt": PROMPT, "budget": BUDGET},
    )
    call(server, "POST", path + "open", json.dumps(asked))
    answer, data = call(server, "POST", path + "explain", '{"text": " a cow"}')
    assert answer.status == 200
    assert json.loads(data) == found


def test_every_example_of_the_page_fits_its_budget(parts):
    """What the page offers can be opened as it stands."""
    page = PAGE.read_text()
    budget = int(re.search(r'id="budget"[^>]*value="(\d+)"', page)[1])
    block = re.search(r"const EXAMPLES = \{(.*?)\n\};", page, re.DOTALL)[1]
    examples = re.findall(r"(\w+): ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", block)
    assert len(examples) == 7
    for kind, text in examples:
        written = text[1:-1].replace("\\n", "\n").replace("\\\\", "\\")
        assert Session(*parts).open(kind, written, PROMPT, budget)["fewest"] <= budget
