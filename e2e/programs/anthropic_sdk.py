"""An agent on Anthropic's official SDK, unmodified: as a program it knows its base URL and
its key from the environment and nothing else.

Prints one JSON object: the texts of a plain and of a streamed answer, and a token count.
"""

import json
import sys

from anthropic import Anthropic


def talk(client, prompt):
    """Three calls; returns what they said."""
    ask = {
        "model": "fake-claude",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": prompt}],
    }
    plain = client.messages.create(**ask)
    with client.messages.stream(**ask) as stream:
        streamed = "".join(stream.text_stream)
        last = stream.get_final_message()
    counted = client.messages.count_tokens(model=ask["model"], messages=ask["messages"])
    return {
        "plain": plain.content[0].text,
        "streamed": streamed,
        "usage": last.usage.output_tokens,
        "stop": last.stop_reason,
        "counted": counted.input_tokens,
    }


CALLS = 3

if __name__ == "__main__":
    print(json.dumps(talk(Anthropic(), sys.argv[1])))
