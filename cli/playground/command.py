"""`tractile playground`: a local page to follow constrained generation token by token."""

import webbrowser
from typing import Annotated

import typer

from ...circuits.hmm import HMM
from ...constraints import Vocabulary
from ...embedded import load_hmm
from ...inference.threads import one_thread
from ...lm import TransformersLM
from ..common import Hmm, Model, check_guide, console, language_model
from .server import PlaygroundServer
from .session import Session


def playground(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    model: Model = None,
    hmm: Hmm = None,
) -> None:
    """Open a local page on which to choose a constraint, a budget and each next token, and to see the distributions.

    With --model and without --hmm there is no HMM: the page shows masks and the model's probabilities."""
    network, tokenizer = language_model(model)
    lm, guide = TransformersLM(network, tokenizer), None
    if hmm is not None or model is None:
        guide = load_hmm() if hmm is None else HMM.from_pretrained(str(hmm))
        check_guide(guide, hmm, model, lm)
    with PlaygroundServer(Session(lm, Vocabulary.from_tokenizer(tokenizer), guide), port) as server:
        console.print(f"The playground is at {server.url}  (Ctrl-C ends it)", highlight=False)
        if browser:
            webbrowser.open(server.url)
        try:
            with one_thread(lm, guide):  # the threads that answer requests begin within
                server.serve_forever()
        except KeyboardInterrupt:
            console.print("stopped")
