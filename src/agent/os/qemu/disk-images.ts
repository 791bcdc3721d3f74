import { access, constants, readdir, mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readOutput, findProgram } from '../child-process.ts';
import type { GuestDisk } from './guest-definition.ts';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { clock } from '../../../clock.ts';
import { findByCommand, endLeftover, processMark } from '../process-group.ts';
import { type NbdDisk, openNbd } from './nbd-client.ts';

/** Disk images, by `qemu-img`. */

const SHORT_MS = 60_000;

const Info = z.object({
  format: z.string(),
  'virtual-size': z.number().int().nonnegative(),
  'backing-filename': z.string().optional(),
});
interface ImageInfo {
  format: string;
  virtualBytes: number;
  /** Whether it is based on another file. */
  hasBase: boolean;
}

export async function imageInfo(tool: string, file: string): Promise<ImageInfo> {
  // A running guest has locked the file; its header can still be read.
  const words = ['info', '--output=json', '-U', fileWord(file)];
  const info = Info.parse(JSON.parse(await readOutput(tool, words, { timeoutMs: SHORT_MS })));
  return {
    format: info.format,
    virtualBytes: info['virtual-size'],
    hasBase: info['backing-filename'] !== undefined,
  };
}

/** Creates an empty overlay. Its header names the base, so that each overlay shows whether it still needs one. */
export async function createOverlay(
  tool: string,
  file: string,
  base: NonNullable<GuestDisk['base']>,
): Promise<void> {
  const backing = {
    driver: 'raw',
    offset: base.offset,
    size: base.sizeBytes,
    file: { driver: 'file', filename: base.file },
  };
  const words = ['-f', 'qcow2', '-u', '-F', 'raw', '-b', `json:${JSON.stringify(backing)}`];
  await readOutput(tool, ['create', '-q', ...words, fileWord(file), String(base.sizeBytes)], {
    timeoutMs: SHORT_MS,
  });
}

type ImageFormat = 'raw' | 'qcow2' | 'vhdx';

/** Copies a whole disk into another format; blocks of zeros stay holes. */
export async function convertImage(
  tool: string,
  { from, to, format }: { from: { file: string; format: 'raw' | 'qcow2' }; to: string; format: ImageFormat },
  signal: AbortSignal,
): Promise<void> {
  const words = ['-f', from.format, '-O', format, fileWord(from.file), fileWord(to)];
  await readOutput(tool, ['convert', '-q', '-W', ...words], { signal, timeoutMs: 24 * 3_600_000 });
  signal.throwIfAborted();
}

/** Without the prefix, a file name such as `nbd:…` or `json:…` would be parsed as a protocol. */
const fileWord = (file: string) => `file:${file}`;

/** What machines require of this host. */
export interface QemuPrograms {
  system: string;
  image: string;
}

interface Firmware {
  code: string;
  variables: string;
}

/** `undefined` if qemu or its tool for images is not installed. Checked each time: it may be installed meanwhile. */
export async function findQemu(searchPath?: string): Promise<QemuPrograms | undefined> {
  const system =
    (await findProgram(['qemu-system-x86_64', 'qemu-kvm'], searchPath)) ??
    (await findProgram(['qemu-kvm'], '/usr/libexec'));
  const image = await findProgram(['qemu-img'], searchPath);
  return system === undefined || image === undefined ? undefined : { system, image };
}

/** Paths at which the distributions install the firmware, without Secure Boot. */
const FIRMWARE: readonly [folder: string, code: string, variables: string][] = [
  ['/usr/share/OVMF', 'OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'],
  ['/usr/share/OVMF', 'OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['/usr/share/edk2/ovmf', 'OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['/usr/share/edk2/x64', 'OVMF_CODE.4m.fd', 'OVMF_VARS.4m.fd'],
];

export async function findFirmware(): Promise<Firmware | undefined> {
  for (const [folder, code, variables] of FIRMWARE) {
    const found = { code: path.join(folder, code), variables: path.join(folder, variables) };
    const isThere = await Promise.all(Object.values(found).map((file) => isReadable(file)));
    if (isThere.every(Boolean)) return found;
  }
  return undefined;
}

/** The names of this host's network bridges. */
export async function listBridges(): Promise<string[]> {
  const names = await readdir('/sys/class/net').catch(() => []);
  const isBridge = await Promise.all(names.map((name) => isReadable(`/sys/class/net/${name}/bridge`)));
  return names.filter((_name, index) => isBridge[index]);
}

const isReadable = (file: string) =>
  access(file, constants.R_OK).then(
    () => true,
    () => false,
  );

/** Reads the content of a disk image of any format, by `qemu-nbd`. */

const START_MS = 20_000;
const POLL_MS = 20;
const STDERR_MAX = 1000;

/** Prefix of the socket folder, before the number of the reading process. */
const PREFIX = 'muster-disk-';

interface ServedImage {
  file: string;
  format: 'raw' | 'qcow2';
}

/**
 * `force-share`: the machine that owns the image can be started and can write meanwhile; the caller must check whether
 * it did. The program ends itself when its only reader has gone.
 */
export async function openImage(
  program: string,
  { file, format }: ServedImage,
  signal: AbortSignal,
): Promise<NbdDisk> {
  // The path of a socket has at most 107 characters, so it is not in a folder of the agent.
  const folder = await mkdtemp(path.join(tmpdir(), `${PREFIX}${process.pid}-`));
  const socket = path.join(folder, 'nbd');
  const node = { driver: format, 'force-share': true, file: { driver: 'file', filename: file } };
  const child = spawn(
    program,
    ['--read-only', '--shared=1', `--socket=${socket}`, `json:${JSON.stringify(node)}`],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    },
  );
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (errors.length < STDERR_MAX) errors += text.slice(0, STDERR_MAX);
  });
  const state = { hasEnded: false };
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      state.hasEnded = true;
      resolve();
    };
    child.once('error', (error) => {
      errors += error.message;
      end();
    });
    child.once('close', end);
  });
  const stop = async () => {
    if (!state.hasEnded) child.kill('SIGTERM');
    await Promise.race([ended, clock.sleep(2000, { unref: true })]);
    if (!state.hasEnded) child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const disk = await untilServed(socket, state, signal);
    return {
      ...disk,
      close() {
        disk.close();
        void stop();
      },
    };
  } catch (error) {
    await stop();
    signal.throwIfAborted();
    const why = errors.trim().split('\n').at(-1) ?? '';
    throw new Error(`The disk image cannot be read: ${why === '' ? String(error) : why}`, { cause: error });
  }
}

async function untilServed(
  socket: string,
  state: { hasEnded: boolean },
  signal: AbortSignal,
): Promise<NbdDisk> {
  const until = clock.monotonic() + START_MS;
  for (;;) {
    try {
      return await openNbd(socket, signal);
    } catch (error) {
      if (state.hasEnded || clock.monotonic() > until) throw error;
      signal.throwIfAborted();
      await clock.sleep(POLL_MS);
    }
  }
}

/** Ends programs of a process that was killed before its first read: they would wait forever. */
export async function clearImages(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = /^muster-disk-(\d{1,10})-[A-Za-z0-9]{6}$/.exec(name)?.[1];
    if (pid === undefined || (await processMark(Number(pid))) !== '') continue;
    const folder = path.join(tmpdir(), name);
    const socket = `--socket=${path.join(folder, 'nbd')}`;
    for (const left of await findByCommand((words) => words.includes(socket))) await endLeftover(left);
    await rm(folder, { recursive: true, force: true });
  }
}
