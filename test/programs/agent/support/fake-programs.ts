import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** What a fake program was given, in the order of its starts. */
export interface ProgramCall {
  args: string[];
  env: Record<string, string>;
  /** What it was sent on its standard input. */
  input: string;
}

export interface FakePrograms {
  folder: string;
  /** A program that records how it is started, and then does what the body says, which is JavaScript in a function. */
  add(name: string, body: string): Promise<string>;
  calls(name: string): Promise<ProgramCall[]>;
  remove(): Promise<void>;
}

/**
 * Programs in place of those of Windows. The body sees `call` (a ProgramCall), `count` (the number of starts before this
 * one), `print(text)`, `fs` and `path`, and may return an exit code.
 */
export async function fakePrograms(): Promise<FakePrograms> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-fake-programs-'));
  const record = (name: string) => path.join(folder, 'calls', `${name}.jsonl`);
  await mkdir(path.join(folder, 'calls'));
  return {
    folder,
    async add(name, body) {
      const file = path.join(folder, name);
      await writeFile(
        file,
        `#!${process.execPath}
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const record = ${JSON.stringify(record(name))};
let input = '';
try { input = fs.readFileSync(0, 'utf8'); } catch { input = ''; }
const call = { args: process.argv.slice(2), env: { ...process.env }, input };
const count = fs.existsSync(record) ? fs.readFileSync(record, 'utf8').trim().split('\\n').length : 0;
fs.appendFileSync(record, JSON.stringify(call) + '\\n');
const print = (text) => fs.writeSync(1, text);
const code = (() => { ${body} })();
process.exitCode = code ?? 0;
`,
      );
      await chmod(file, 0o755);
      return file;
    },
    async calls(name) {
      const text = await readFile(record(name), 'utf8').catch(() => '');
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as ProgramCall);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
