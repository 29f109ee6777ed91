"""Tokenizers that are trained here."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = [
    "Once upon a time there was a little dog.",
    "naïve café — 東京",
    '{"name": "Ann", "age": 12}',
    "yes no maybe",
] * 20


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=400, special_tokens=["</s>", "<pad>"], initial_alphabet=alphabet),
    )
    return tokenizer
