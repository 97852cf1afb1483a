// An agent on OpenAI's official SDK for Node, unmodified: it knows its base URL and its key
// from the environment and nothing else. Prints one JSON object: the texts of plain and
// streamed answers, and what a list said.
import OpenAI from "openai";

const client = new OpenAI();
const prompt = process.argv[2];
const ask = { model: "fake-1", messages: [{ role: "user", content: prompt }] };

const plain = await client.chat.completions.create(ask);
const chunks = await client.chat.completions.create({ ...ask, stream: true });
const pieces = [];
for await (const chunk of chunks) {
  pieces.push(...chunk.choices.map((choice) => choice.delta.content ?? ""));
}
const response = await client.responses.create({ model: "fake-1", input: prompt });
const models = [];
for await (const model of client.models.list()) models.push(model.id);
console.log(
  JSON.stringify({
    plain: plain.choices[0].message.content,
    streamed: pieces.join(""),
    response: response.output_text,
    models,
  }),
);
