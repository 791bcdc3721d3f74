import { expect } from 'chai';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeCluster, runningEmbeddedPostgres } from '../../../src/platform/db/embedded/index.ts';
import { processState } from '../../../src/platform/db/embedded/postmaster.ts';
import { Stage, failure, kill, postmasterPid } from './embedded-postgres-stage.ts';

describe('embedded Postgres after a crash', function () {
  const stage = new Stage();
  after(() => stage.clear());

  const dataDir = stage.path('crash');
  const clusterDir = join(dataDir, 'postgres');
  let formerPidFile = '';

  it('adopts the server that a killed process has left running', async () => {
    const parent = await stage.child(dataDir);
    const before = await parent.answer;
    const pid = postmasterPid(clusterDir);
    parent.process.kill('SIGKILL');
    await once(parent.process, 'exit');
    const started = await stage.start(dataDir);
    expect(started).to.include({ adopted: true, ownerUrl: before.ownerUrl });
    expect(postmasterPid(clusterDir)).to.equal(pid);
  });

  it('starts again after the server itself was killed', async () => {
    const pidFile = readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8');
    kill(postmasterPid(clusterDir));
    const started = await stage.start(dataDir);
    expect(started.adopted).to.equal(false);
    formerPidFile = pidFile;
    await started.stop();
  });

  it('waits for a dead server that its parent has not yet taken note of', async () => {
    const parent = await writeZombie(1);
    const started = await stage.start(dataDir);
    await started.stop();
    expect(started.adopted).to.equal(false);
    expect(parent.exitCode).to.equal(0);
  });

  it('starts after a while if the parent never takes note', async () => {
    const parent = await writeZombie(60);
    const started = await stage.start(dataDir);
    await started.stop();
    expect(started.adopted).to.equal(false);
    expect(parent.exitCode).to.equal(null);
    parent.kill();
  });

  it('starts although the pid of a dead server belongs to another process now', async () => {
    const { uid, gid } = statSync(clusterDir);
    const stranger = spawn('sleep', ['60'], { uid, gid });
    writePidFile(stranger.pid ?? 0);
    const started = await stage.start(dataDir);
    expect(started.adopted).to.equal(false);
    await started.stop();
    expect(stranger.exitCode).to.equal(null);
    stranger.kill();
  });

  it('starts although it was killed before it had written its pid file', async () => {
    writeFileSync(join(clusterDir, 'postmaster.pid'), '');
    const started = await stage.start(dataDir);
    expect(started.adopted).to.equal(false);
    await started.stop();
  });

  it('is only looked at by a command beside it, which leaves its pid file alone', async () => {
    const { uid, gid } = statSync(clusterDir);
    const stranger = spawn('sleep', ['60'], { uid, gid });
    writePidFile(stranger.pid ?? 0);
    const file = join(clusterDir, 'postmaster.pid');
    const before = readFileSync(file, 'utf8');
    expect(await runningEmbeddedPostgres(dataDir)).to.equal(undefined);
    expect(readFileSync(file, 'utf8')).to.equal(before);
    stranger.kill();
  });

  it('recovers from a creation that was killed', async () => {
    const half = stage.dir('half');
    const parent = await stage.child(half);
    while (!readdirSync(half).some((name) => name.startsWith('postgres.init-'))) await delay(5);
    await delay(150);
    parent.process.kill('SIGKILL');
    await once(parent.process, 'exit');
    expect(existsSync(join(half, 'postgres'))).to.equal(false);
    await (await stage.start(half)).stop();
    expect(readdirSync(half).sort()).to.deep.equal(['postgres', 'postgres.password']);
  });

  it('sets a half-made cluster aside, and does not take a damaged one for a new one', async () => {
    const folder = stage.dir('damaged');
    mkdirSync(join(folder, 'postgres', 'base'), { recursive: true });
    await (await stage.start(folder)).stop();
    expect(readdirSync(folder).filter((name) => name.startsWith('postgres.unfinished-'))).to.have.length(1);
    unlinkSync(join(folder, 'postgres', 'global', 'pg_control'));
    expect((await failure(stage.start(folder))).message)
      .to.include('damaged')
      .and.include(folder);
  });

  /** Leaves a pid file of a process that has ended and whose parent sleeps. */
  async function writeZombie(seconds: number): Promise<ChildProcess> {
    const script = `sleep 0.1 & echo $!; exec sleep ${seconds}`;
    const parent = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [printed] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(printed.toString());
    while ((await processState(pid)) === 'alive') await delay(10);
    expect(await processState(pid)).to.equal('zombie');
    writePidFile(pid);
    return parent;
  }

  function writePidFile(pid: number): void {
    writeFileSync(join(clusterDir, 'postmaster.pid'), formerPidFile.replace(/^\d+/, String(pid)));
  }

  it('removes a cluster whose owner was killed, and stops what it left running', async () => {
    const dataDir = stage.dir('orphan');
    const parent = await stage.child(dataDir);
    const { clusterDir } = await parent.answer;
    const pid = postmasterPid(clusterDir);
    parent.process.kill('SIGKILL');
    await once(parent.process, 'exit');
    await removeCluster({ dataDir, log: stage.log });
    expect(await processState(pid)).to.not.equal('alive');
    expect(readdirSync(dataDir)).to.deep.equal([]);
  });
});
