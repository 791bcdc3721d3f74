import { z } from 'zod';
import type { TerminalClosed, TerminalOpened } from '../../../protocol/index.ts';
import type { CommandIo } from '../../io.ts';
import { apiOf } from '../api.ts';
import { interruptible } from '../hub-connection.ts';
import { deviceNamed } from '../names.ts';
import { visible } from '../output.ts';
import { type PersonSession, signInAsPerson } from '../person-session.ts';
import { EXIT, profileNamed, RemoteFailure } from '../profiles.ts';
import { createEscapes, ESCAPES_HELP } from './escapes.ts';
import { createLeftModes } from './left-modes.ts';
import { LiveTerminal, type Surface, type TerminalOutcome } from './live-terminal.ts';

/** `muster terminal`: a shell of a device in the local terminal. */

export interface TerminalOptions {
  email?: string;
  /** `~.` and its relatives are for this program; false: all that is typed is for the device. */
  escapes: boolean;
  profile?: string;
}

const Me = z.object({ user: z.object({ email: z.string() }) });

export async function openTerminal(
  io: CommandIo,
  named: string,
  { email, escapes, profile: wanted }: TerminalOptions,
): Promise<number> {
  const { stdin, stdout, stderr } = io;
  if (stdin.isTTY !== true || stdout.isTTY !== true || stderr.isTTY !== true) {
    throw new RemoteFailure(
      EXIT.failed,
      'A terminal of a device needs one here: input and output must not be redirected.',
    );
  }
  const profile = await profileNamed(io, wanted);
  const api = apiOf(profile);
  const device = await deviceNamed(api, named);
  const person = email ?? (await api.get('/auth/me', Me)).user.email;
  const session = await signInAsPerson(io, { server: profile.server, email: person });
  try {
    // Until the terminal is in raw mode, Ctrl+C leaves; SIGTERM leaves at any time.
    return await interruptible(io, (interrupted) => hold(io, { session, device, escapes, interrupted }));
  } finally {
    await session.end();
  }
}

async function hold(
  io: CommandIo,
  parts: {
    session: PersonSession;
    device: { id: string; hostname: string };
    escapes: boolean;
    interrupted: AbortSignal;
  },
): Promise<number> {
  const { session, device, escapes, interrupted } = parts;
  const { stdin, stdout, stderr } = io;
  const leaving = new AbortController();
  const leave = () => leaving.abort();
  interrupted.addEventListener('abort', leave, { once: true });
  const modes = createLeftModes();
  const say = (text: string) =>
    void stderr.write(`${isRaw ? '\r\n' : ''}${visible(text)}${isRaw ? '\r\n' : '\n'}`);
  let isRaw = false;
  const setRaw = (raw: boolean) => {
    if (raw === isRaw) return;
    isRaw = raw;
    stdin.setRawMode?.(raw);
    if (raw) stdin.on('data', onTyped).resume();
    else {
      stdin.off('data', onTyped).pause();
      // A program that can no longer do it has left the other screen, or the cursor hidden.
      stdout.write(modes.undo());
    }
  };
  const surface: Surface = {
    write(text, onShown) {
      modes.see(text);
      stdout.write(text, onShown);
    },
    size: () => ({ cols: within(stdout.columns ?? 80, 2, 500), rows: within(stdout.rows ?? 24, 1, 300) }),
    opened(opened, isAgain) {
      if (isAgain) say('[Connected again.]');
      else say(openingLine(device.hostname, opened, escapes));
      setRaw(true);
    },
    lost: (why) => say(`[${why} The terminal goes on, and is continued.${escapes ? ' ~. leaves it.' : ''}]`),
    async askForFactor() {
      setRaw(false);
      await session.giveFactor();
    },
  };
  const terminal = new LiveTerminal({ session, deviceId: device.id, surface, left: leaving.signal });
  const readTyped = escapes ? createEscapes() : (text: string) => [{ text }];
  const decoder = new TextDecoder();
  const onTyped = (chunk: Buffer | string) => {
    const input = typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    for (const typed of readTyped(input)) {
      // Without a connection nobody but this program hears Ctrl+C.
      if (!terminal.isOpen && typed.text.includes(CTRL_C)) leave();
      else if (typed.text !== '') terminal.type(typed.text);
      if ('asked' in typed && typed.asked === 'leave') leave();
      if ('asked' in typed && typed.asked === 'help') say(ESCAPES_HELP);
    }
  };
  const onResize = () => terminal.resize();
  stdout.on('resize', onResize);
  // The window was closed: there is nobody left to show the terminal to.
  for (const stream of [stdin, stdout]) stream.on('error', leave);
  for (const event of ['end', 'close']) stdin.on(event, leave);
  try {
    const outcome = await terminal.run();
    setRaw(false);
    stderr.write(`\n${visible(endingLine(outcome))}\n`);
    return interrupted.aborted ? EXIT.interrupted : codeOf(outcome);
  } finally {
    setRaw(false);
    stdout.off('resize', onResize);
    for (const stream of [stdin, stdout]) stream.off('error', leave);
    for (const event of ['end', 'close']) stdin.off(event, leave);
  }
}

const CTRL_C = '\u0003';

/** No smaller than a shell can use, and no larger than the server allows. */
const within = (value: number, least: number, most: number) => Math.min(Math.max(value, least), most);

const NOTICES: Readonly<Record<TerminalOpened['notice'], string>> = {
  shown: 'The people who are signed in at the device were told.',
  nobody: 'No one is signed in at the device.',
  failed: 'The people at the device could not be told.',
};

function openingLine(hostname: string, { shell, mode, notice }: TerminalOpened, escapes: boolean): string {
  return [
    `[${shell} on ${hostname}. What it shows is recorded. ${NOTICES[notice]}`,
    ...(mode === 'lines' ? ['The device has no terminal of its own, so it gets whole lines.'] : []),
    escapes ? '~. at the start of a line leaves.]' : 'The end of the shell leaves.]',
  ].join(' ');
}

const ENDS: Partial<Record<TerminalClosed['reason'], string>> = {
  closed: 'You have ended the terminal.',
  unattended: 'The terminal has ended, because it had no viewer for some minutes.',
  too_long: 'The terminal has ended after eight hours.',
  access_ended: 'The terminal has ended, because your rights have changed.',
  switched_off: 'The terminal has ended: the organization does not allow terminals any more.',
  device_moved: 'The terminal has ended, because the device was moved.',
  recording_failed: 'The terminal has ended, because it could not be recorded.',
  recording_full: 'The terminal has ended, because its recording has reached the largest size.',
  replaced: 'The terminal is shown elsewhere.',
};

const endingLine = ({ reason, exitCode }: TerminalOutcome): string =>
  reason === 'exited'
    ? `The shell has ended${exitCode === null ? '' : ` with ${exitCode}`}.`
    : (ENDS[reason] ?? `The terminal has ended: ${reason}.`);

/** As with `ssh`, the exit code of the shell is that of the command. */
const codeOf = ({ reason, exitCode }: TerminalOutcome): number =>
  reason === 'exited' ? (exitCode ?? EXIT.finding) : reason === 'closed' ? 0 : EXIT.finding;
