import { type ChildProcess, execFile, fork, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  type CommandOutput,
  type CommandPayload,
  EngineId,
  type ImageDetails,
  type VM_RESTORE_COMMANDS,
} from '../../../../../src/protocol/index.ts';
import { machineTraces } from '../machine-traces.ts';

/** A repository with images of disks, and the part of the agent that makes machines of them. */

type VmCommand = keyof typeof VM_RESTORE_COMMANDS;
export interface Reply {
  output?: unknown;
  error?: { code: string; message: string };
}

const PASSWORD = 'a-password-of-tests';
const SECRET = randomUUID();
const run = promisify(execFile);

export async function openMachineBench() {
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'muster-machines-')));
  const at = (...names: string[]) => path.join(folder, ...names);
  const dataDir = at('data');
  await mkdir(dataDir, { mode: 0o700 });
  const traces = machineTraces(folder, dataDir);
  const environment = {
    PATH: process.env['PATH'],
    RESTIC_REPOSITORY: at('repository'),
    RESTIC_PASSWORD: PASSWORD,
    RESTIC_CACHE_DIR: at('cache'),
  };
  const restic = async (...words: string[]) => (await run('restic', words, { env: environment })).stdout;
  await restic('init');
  const replies = new Map<number, (reply: Reply) => void>();
  const progress: { id: number; phase: string; percent?: number }[] = [];
  let lastId = 0;
  let agent = await startAgent();

  async function startAgent(): Promise<ChildProcess> {
    const program = path.join(import.meta.dirname, 'restore-process.ts');
    const child = fork(program, [dataDir], {
      execArgv: ['--import', 'tsx'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    await new Promise<void>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the agent ended with ${code}`)));
      child.on('message', (message: Reply & { id?: number; ready?: true; progress?: { phase: string } }) => {
        if (message.ready === true) resolve();
        else if (message.progress !== undefined) progress.push({ id: message.id ?? 0, ...message.progress });
        else replies.get(message.id ?? 0)?.(message);
      });
    });
    child.once('exit', () => {
      for (const reply of replies.values()) {
        reply({ error: { code: 'INTERRUPTED', message: 'The agent has ended.' } });
      }
      replies.clear();
    });
    return child;
  }

  function send(type: VmCommand, payload: object): { id: number; ended: Promise<Reply> } {
    const id = (lastId += 1);
    const ended = new Promise<Reply>((resolve) => replies.set(id, resolve));
    agent.send({ id, type, payload, secrets: { [SECRET]: PASSWORD } });
    return { id, ended };
  }

  return {
    at,
    dataDir,
    progress,
    restic,
    send,
    cancel: (id: number) => agent.send({ cancel: id }),
    /** The output of a command that has to succeed. */
    async run<T extends VmCommand>(type: T, payload: object): Promise<CommandOutput<T>> {
      const { output, error } = await send(type, payload).ended;
      if (error !== undefined) throw new Error(`${type}: ${error.code}: ${error.message}`);
      return output as CommandOutput<T>;
    },
    async failure(type: VmCommand, payload: object): Promise<{ code: string; message: string }> {
      const { output, error } = await send(type, payload).ended;
      if (error === undefined) throw new Error(`${type} has succeeded: ${JSON.stringify(output)}`);
      return error;
    },
    /** Puts disks into the repository as one machine. */
    async store(disks: readonly string[]): Promise<{ snapshotId: string; image: ImageDetails }> {
      const work = at(`work-${randomUUID()}`);
      await mkdir(path.join(work, 'disks'), { recursive: true });
      await writeFile(path.join(work, 'machine.json'), JSON.stringify({ disks }));
      const found: ImageDetails['disks'] = [];
      let offset = 2 * 512;
      const names = [];
      for (const [index, disk] of disks.entries()) {
        const { size } = await stat(disk);
        const name = `disk${index}`;
        await run('cp', ['--sparse=always', disk, path.join(work, 'disks', `${name}.raw`)]);
        found.push({ name, sizeBytes: size, offset: offset + 512, sectorBytes: 512 });
        offset += 512 + Math.ceil(size / 512) * 512;
        names.push(`disks/${name}.raw`);
      }
      const tar = spawn('tar', ['--format=gnu', '-C', work, '-cf', '-', 'machine.json', ...names], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const words = ['backup', '--json', '--stdin', '--stdin-filename', 'machine.tar'];
      const backup = spawn('restic', words, { env: environment, stdio: [tar.stdout, 'pipe', 'inherit'] });
      const parts: Buffer[] = [];
      for await (const part of backup.stdout ?? []) parts.push(part as Buffer);
      const summary = Buffer.concat(parts).toString().trim().split('\n').at(-1) ?? '{}';
      const short = (JSON.parse(summary) as { snapshot_id: string }).snapshot_id;
      const all = JSON.parse(await restic('snapshots', '--json', short)) as { id: string }[];
      await rm(work, { recursive: true });
      const image: ImageDetails = {
        kind: 'image',
        source: 'disk',
        machine: 'small',
        disks: found,
        bootMode: 'bios',
        consistency: 'crash',
        memoryBytes: 512 * 1024 ** 2,
        processors: 1,
        system: 'a small Linux',
      };
      return { snapshotId: EngineId.parse(all[0]?.id), image };
    },
    /** Puts a folder into the repository, as a backup of the guests of a host does. */
    async storeFolder(source: string): Promise<string> {
      const output = await restic('backup', '--json', source);
      const summary = output.trim().split('\n').at(-1) ?? '{}';
      const short = (JSON.parse(summary) as { snapshot_id: string }).snapshot_id;
      const all = JSON.parse(await restic('snapshots', '--json', short)) as { id: string }[];
      return EngineId.parse(all[0]?.id);
    },
    wanted(stored: {
      snapshotId: string;
      image: ImageDetails;
      imagePath?: string;
    }): CommandPayload<'backup.vm-instant-boot'> {
      return {
        restoreId: randomUUID(),
        repository: {
          destination: { type: 'local', path: at('repository') },
          password: { secretRef: SECRET },
        },
        ...stored,
        vmName: 'a, "machine"\n$(x)',
        memoryMb: 512,
        cpuCount: 1,
        network: { type: 'user', isIsolated: true, forwards: [80] },
      };
    },
    async restart(): Promise<void> {
      if (agent.exitCode === null && agent.signalCode === null) {
        agent.kill('SIGKILL');
        await new Promise((resolve) => agent.once('exit', resolve));
      }
      agent = await startAgent();
    },
    kill: () => void agent.kill('SIGKILL'),
    ...traces,
    async close(): Promise<void> {
      agent.kill('SIGKILL');
      await traces.end();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
export type MachineBench = Awaited<ReturnType<typeof openMachineBench>>;
