"""An agent on OpenAI's official SDK, unmodified: as a program it knows its base URL and
its key from the environment and nothing else.

Prints one JSON object: the texts of plain and streamed answers, and what a list and an
embedding said.
"""

import json
import sys

from openai import OpenAI


def talk(client, prompt):
    """Six calls; returns what they said."""
    ask = {"model": "fake-1", "messages": [{"role": "user", "content": prompt}]}
    plain = client.chat.completions.create(**ask)
    chunks = client.chat.completions.create(
        **ask, stream=True, stream_options={"include_usage": True}
    )
    pieces, usage = [], None
    for chunk in chunks:
        pieces += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
    response = client.responses.create(model="fake-1", input=prompt)
    with client.responses.stream(model="fake-1", input=prompt) as events:
        streamed_response = events.get_final_response()
    return {
        "plain": plain.choices[0].message.content,
        "streamed": "".join(pieces),
        "usage": usage.total_tokens,
        "response": response.output_text,
        "streamed_response": streamed_response.output_text,
        "models": [model.id for model in client.models.list()],
        "embeddings": len(client.embeddings.create(model="fake-1", input="a").data),
    }


CALLS = 6

if __name__ == "__main__":
    print(json.dumps(talk(OpenAI(), sys.argv[1])))
