import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { AGENT_VERSION } from '../../../src/agent/core/version.ts';
import { WATCHDOG_VERSION } from '../../../src/watchdog/version.ts';
import { type BuiltAgent, builtAgent } from '../../support/built-agent.ts';
import { eventually } from '../../support/eventually.ts';

const run = promisify(execFile);

/** The executable as `npm run build:agent` makes it. */
describe('the packaged agent', function () {
  this.timeout(120_000);
  let agent: BuiltAgent;
  let folder: string;

  before(async () => {
    agent = await builtAgent();
    folder = await mkdtemp(path.join(tmpdir(), 'muster-packaged-'));
  });
  after(async () => rm(folder, { recursive: true, force: true }));

  const foreign = async () => {
    const file = path.join(folder, 'foreign.cjs');
    await writeFile(
      file,
      `require('node:fs').writeFileSync(${JSON.stringify(`${file}.ran`)}, ''); console.log('foreign');`,
    );
    return file;
  };

  it('runs the agent’s script, and has the versions of both', async () => {
    expect((await run(agent.program, ['version'])).stdout).to.equal(`${AGENT_VERSION}\n`);
    expect((await run(agent.program, ['watchdog', 'version'])).stdout).to.equal(`${WATCHDOG_VERSION}\n`);
  });

  it('names itself in what it tells people to type', async () => {
    const status = await run(agent.program, ['status', '--data-dir', folder]).catch((error) => error);
    expect(status.code).to.equal(2);
    expect(status.stdout).to.contain('muster-agent enroll --server URL --key KEY');
    expect(readFileSync(agent.script, 'utf8')).not.to.contain('npm run agent');
  });

  for (const [name, settings] of [
    ['NODE_OPTIONS with a file to load', (file: string) => ({ NODE_OPTIONS: `--require ${file}` })],
    ['NODE_OPTIONS with a module to import', (file: string) => ({ NODE_OPTIONS: `--import ${file}` })],
    ['NODE_OPTIONS with an inspector', () => ({ NODE_OPTIONS: '--inspect=127.0.0.1:0' })],
    ['NODE_OPTIONS that Node would refuse', () => ({ NODE_OPTIONS: '--nonsense' })],
    ['NODE_PATH', (file: string) => ({ NODE_PATH: path.dirname(file) })],
  ] as const) {
    it(`takes no notice of ${name}`, async () => {
      const env = { ...process.env, ...settings(await foreign()) };
      const { stdout, stderr } = await run(agent.program, ['version'], { env });
      expect({ stdout, stderr }).to.deep.equal({ stdout: `${AGENT_VERSION}\n`, stderr: '' });
    });
  }

  it('opens no inspector at SIGUSR1, and goes on', async () => {
    // Node itself opens one, so the test can fail. A port of its own, because the usual one may be taken.
    const node = await startAndSignal(process.execPath, [
      '--inspect-port=0',
      '-e',
      'setInterval(() => {}, 1000)',
    ]);
    const openedMs = await eventuallyListens(node).finally(() => node.child.kill('SIGKILL'));
    const packaged = await startAndSignal(agent.program, ['eventlog', 'tail', 'dpkg.log']);
    try {
      await delay(openedMs * 5 + 500);
      expect({ code: packaged.child.exitCode, signal: packaged.child.signalCode }).to.deep.equal({
        code: null,
        signal: null,
      });
      expect(await listens(packaged.pid)).to.equal(false);
      // Where the usual port is taken, an inspector says so.
      expect(packaged.errors()).not.to.match(/inspector|debugger/i);
    } finally {
      packaged.child.kill('SIGKILL');
    }
  });

  it('cannot be forked, and runs no script that it is given', async () => {
    const file = await foreign();
    const child = spawn(agent.program, [file], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect(code).to.equal(70);
    const asWord = await run(agent.program, [file]).catch((error) => error);
    expect(asWord.code).to.equal(1);
    expect(() => readFileSync(`${file}.ran`)).to.throw('ENOENT');
  });
});

/** Starts a program and sends it the signal that opens the inspector, as soon as it handles that. */
async function startAndSignal(program: string, words: string[]) {
  const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${program} does not start`);
  let errors = '';
  child.stderr.on('data', (chunk) => (errors += String(chunk)));
  await eventually(async () => handlesSignal(pid), Boolean, 20_000).catch((error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });
  child.kill('SIGUSR1');
  return { child, pid, errors: () => errors };
}

/** @returns  how long it took, in milliseconds */
async function eventuallyListens({ pid }: { pid: number }): Promise<number> {
  const from = performance.now();
  await eventually(async () => listens(pid), Boolean, 20_000);
  return performance.now() - from;
}

/** Before that, SIGUSR1 ends a program. */
const handlesSignal = (pid: number) => {
  const caught = /^SigCgt:\s+([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return (BigInt(`0x${caught ?? '0'}`) & (1n << BigInt(constants.signals.SIGUSR1 - 1))) !== 0n;
};

/** By the sockets of the process among those of the machine that listen. */
async function listens(pid: number): Promise<boolean> {
  const { stdout } = await run('sh', [
    '-c',
    `ls -l /proc/${pid}/fd | sed -n 's/.*socket:\\[\\([0-9]*\\)\\].*/\\1/p'`,
  ]);
  const own = new Set(stdout.split('\n').filter((inode) => inode !== ''));
  return ['tcp', 'tcp6'].some((table) =>
    readFileSync(`/proc/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .some((fields) => fields[3] === '0A' && own.has(fields[9] ?? '')),
  );
}
