import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { LineSplitter } from './lines.ts';
import { type EngineCall, type EngineEnd, type RunningEngine, startEngine } from './start-engine.ts';

/** Three ways of reading what restic prints, each with bounded memory. */

const LINE_MAX = 1024 * 1024;
const DOCUMENT_MAX = 64 * 1024 * 1024;

/** Offers each line of the standard output, in order. A consumer that throws stops the program. */
export async function runLines(
  engine: Engine,
  call: EngineCall,
  onLine: (line: string) => void | Promise<void>,
): Promise<EngineEnd> {
  const running = startEngine(engine, call);
  await consume(running, async () => {
    for await (const line of linesOf(running)) await onLine(line);
  });
  return running.ended;
}

/** The whole standard output. Throws where it is larger than `maxBytes`, and where restic fails. */
export async function runDocument(
  engine: Engine,
  call: EngineCall,
  maxBytes = DOCUMENT_MAX,
): Promise<string> {
  const running = startEngine(engine, call);
  const parts: Uint8Array[] = [];
  await consume(running, async () => {
    let length = 0;
    for await (const bytes of chunksOf(running)) {
      length += bytes.byteLength;
      if (length > maxBytes) {
        throw new EngineError('ENGINE_FAILED', { detail: `restic printed more than ${maxBytes} bytes.` });
      }
      parts.push(bytes);
    }
  });
  const end = await running.ended;
  if (end.exitCode !== 0) throw end.failure();
  return Buffer.concat(parts).toString('utf8');
}

/** The standard output as it comes. Leaving the loop stops the program; a failure of it throws at the end. */
export async function* streamBytes(engine: Engine, call: EngineCall): AsyncGenerator<Uint8Array, void> {
  const running = startEngine(engine, call);
  yield* complete(running, chunksOf(running));
}

/** The same in lines. */
export async function* streamLines(engine: Engine, call: EngineCall): AsyncGenerator<string, void> {
  const running = startEngine(engine, call);
  yield* complete(running, linesOf(running));
}

async function* complete<T>(running: RunningEngine, items: AsyncIterable<T>): AsyncGenerator<T, void> {
  let isComplete = false;
  try {
    yield* items;
    isComplete = true;
  } finally {
    if (!isComplete) {
      running.stop();
      await running.ended;
    }
  }
  const end = await running.ended;
  if (end.exitCode !== 0) throw end.failure();
}

async function consume(running: RunningEngine, read: () => Promise<void>): Promise<void> {
  try {
    await read();
  } catch (error) {
    running.stop();
    await running.ended;
    throw error;
  }
}

async function* linesOf(running: RunningEngine): AsyncGenerator<string, void> {
  const splitter = new LineSplitter(LINE_MAX);
  for await (const bytes of chunksOf(running)) for (const { text } of splitter.push(bytes)) yield text;
  for (const { text } of splitter.end()) yield text;
}

/** An output that was closed because the program was stopped ends here; `ended` has the reason. */
async function* chunksOf({ stdout, ended }: RunningEngine): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const bytes of stdout) {
      if (bytes instanceof Uint8Array) yield bytes;
    }
  } catch (error) {
    const end = await ended;
    if (end.exitCode === 0 && !end.wasCancelled) throw error;
  }
}
