import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';

/** Programs of Windows that Wine does not have: a small executable asks the test what it shall print. */

/** One start of a stand-in. */
export interface StandInCall {
  /** In small letters, without the ending. */
  program: string;
  args: string[];
  /** The variables whose names begin with MUSTER_, PARAM_ or PYTHON. */
  env: Record<string, string>;
  /** Aborted if the program is killed before it has its answer. */
  signal: AbortSignal;
}

interface StandInAnswer {
  output?: string | Buffer;
  errors?: string;
  code?: number;
}

export type StandInHandler = (call: StandInCall) => StandInAnswer | Promise<StandInAnswer>;

export interface StandIns {
  /** All starts so far. */
  calls: Pick<StandInCall, 'program' | 'args'>[];
  /** Adds a program to the Windows folder. */
  install(name: string): Promise<void>;
  /** Replaces the answers of a program. */
  on(program: string, handler: StandInHandler): void;
  close(): Promise<void>;
}

const SOURCE = path.join(import.meta.dirname, 'stand-in.c');
const COMPILER = 'x86_64-w64-mingw32-gcc';

/**
 * Puts the executable under each name into the Windows folder of a Wine prefix.
 * @param drive  the folder of drive C
 */
export async function startStandIns(drive: string, names: readonly string[]): Promise<StandIns> {
  const handlers = new Map<string, StandInHandler>();
  const calls: StandIns['calls'] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // A program that is killed takes its connection with it.
    socket.on('error', () => socket.destroy());
    void answer(socket, handlers, calls);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The stand-ins have no port.');
  await mkdir(path.join(drive, 'stand-ins'), { recursive: true });
  await writeFile(path.join(drive, 'stand-ins', 'port'), String(address.port));
  const program = path.join(drive, 'stand-ins', 'stand-in.exe');
  await promisify(execFile)(COMPILER, ['-municode', '-O1', '-s', '-o', program, SOURCE, '-lws2_32']);
  const install = async (name: string) => {
    const folder = name === 'powershell' ? 'system32/WindowsPowerShell/v1.0' : 'system32';
    const file = path.join(drive, 'windows', folder, `${name}.exe`);
    await rm(file, { force: true });
    await copyFile(program, file);
  };
  for (const name of names) await install(name);
  return {
    calls,
    install,
    on: (name, handler) => void handlers.set(name, handler),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(
  socket: Socket,
  handlers: ReadonlyMap<string, StandInHandler>,
  calls: StandIns['calls'],
): Promise<void> {
  const request = await readRequest(socket);
  if (request === undefined) return;
  const [file = '', ...args] = request.words;
  const program = path.win32.basename(file, '.exe').toLowerCase();
  calls.push({ program, args });
  const killed = new AbortController();
  socket.once('close', () => killed.abort());
  const call = { program, args, env: request.env, signal: killed.signal };
  const { output = '', errors = '', code = 0 } = await ask(handlers.get(program), call);
  if (socket.destroyed) return;
  socket.end(Buffer.concat([frame(1, output), frame(2, errors), frame(0, String(code))]));
}

/** A fault of a handler is a failure of the program. */
async function ask(handler: StandInHandler | undefined, call: StandInCall): Promise<StandInAnswer> {
  try {
    return (await handler?.(call)) ?? { code: 1, errors: `The test has no answer of ${call.program}.\r\n` };
  } catch (error) {
    return { code: 1, errors: `The test could not answer: ${String(error)}\r\n` };
  }
}

function frame(kind: number, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const head = Buffer.alloc(5);
  head.writeUInt8(kind);
  head.writeUInt32LE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** `undefined` if the program ended before it had sent everything. */
function readRequest(socket: Socket): Promise<{ words: string[]; env: Record<string, string> } | undefined> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    socket.once('close', () => resolve(undefined));
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.length < 4 || bytes.length < 4 + bytes.readUInt32LE()) return;
      const [count = '0', ...texts] = bytes.subarray(4).toString().replace(/\0$/, '').split('\0');
      const words = texts.slice(0, Number(count));
      const variables = texts.slice(Number(count)).map((text) => {
        const at = text.indexOf('=');
        return [text.slice(0, at), text.slice(at + 1)] as const;
      });
      resolve({ words, env: Object.fromEntries(variables) });
    });
  });
}
