import { spawn } from 'node:child_process';
import type { TerminalNotice } from '../../../protocol/index.ts';
import { printable } from '../../core/plain-text.ts';
import { findProgram, readOutput, systemProgram } from '../../os/child-process.ts';

/** Tells the people who are signed in at the machine what happens on it. */
export type NotifyPeople = (message: string) => Promise<TerminalNotice>;

/** The terminal waits for it. */
const NOTIFY_MS = 2000;
/** How long Windows shows the message. */
const SHOWN_SECONDS = 60;

/**
 * The notice on this system: `wall` writes to the terminals of all who are signed in on Linux and macOS, `msg` opens a
 * window on Windows, where editions for the home do not have it.
 */
export async function findPeopleNotice(
  searchPath: string | undefined = process.env['PATH'],
): Promise<NotifyPeople> {
  if (process.platform === 'win32') {
    const msg = systemProgram('msg');
    return (message) => run(msg, ['*', `/TIME:${SHOWN_SECONDS}`, line(message)]);
  }
  const [wall, who] = await Promise.all([
    findProgram(['wall'], searchPath),
    findProgram(['who'], searchPath),
  ]);
  if (wall === undefined || who === undefined) return async () => 'failed';
  return async (message) => {
    const people = await readOutput(who, [], { timeoutMs: NOTIFY_MS }).catch(() => undefined);
    if (people === undefined) return 'failed';
    if (people.trim() === '') return 'nobody';
    return run(wall, [line(message)]);
  };
}

const line = (message: string) => printable(`Muster: ${message}`, 400);

function run(command: string, args: readonly string[]): Promise<TerminalNotice> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'ignore', timeout: NOTIFY_MS, windowsHide: true });
    child.once('error', () => resolve('failed'));
    // `msg` ends with an error if no one is signed in as well.
    child.once('exit', (code) => resolve(code === 0 ? 'shown' : 'failed'));
  });
}
