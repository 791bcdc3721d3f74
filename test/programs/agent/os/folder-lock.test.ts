import { spawn } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { LockHeldError, takeLock, withLock } from '../../../../src/agent/os/files/folder-lock.ts';
import { isRunning, processMark } from '../../../../src/agent/os/process-group.ts';
import { temporaryFolder, until } from '../../../support/agent/collect.ts';

describe('agent: a lock in its folder', () => {
  let folder: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  const takeMany = async (count: number) => {
    const all = await Promise.allSettled(Array.from({ length: count }, () => takeLock(folder, 'a')));
    const locks = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const refusals = all.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []));
    return { locks, refusals };
  };

  it('is held by exactly one of many concurrent processes, and the others learn which one', async () => {
    for (let round = 0; round < 5; round++) {
      const { locks, refusals } = await takeMany(20);
      expect(locks).to.have.length(1);
      for (const error of refusals) {
        expect(error).to.be.instanceOf(LockHeldError).and.have.nested.property('holder.pid', process.pid);
      }
      await locks[0]!.release();
    }
    expect(await readdir(folder)).to.have.length(1);
  });

  it('ends with its process: exactly one of many takes the lock of a killed one', async () => {
    const child = spawn('sleep', ['60']);
    const holder = { pid: child.pid!, mark: await processMark(child.pid!) };
    await writeFile(path.join(folder, 'a.lock.7'), JSON.stringify(holder));
    expect((await takeMany(3)).locks).to.have.length(0);
    child.kill('SIGKILL');
    await until(async () => !(await isRunning(holder)), 'the end of the holder');
    const { locks } = await takeMany(20);
    expect(locks).to.have.length(1);
    expect(await readdir(folder)).to.deep.equal(['a.lock.8']);
  });

  it('is not held by another process with the same number, or by a damaged file', async () => {
    await writeFile(path.join(folder, 'a.lock.1'), JSON.stringify({ pid: process.pid, mark: 'of another' }));
    await (await takeLock(folder, 'a')).release();
    await writeFile(path.join(folder, 'a.lock.9'), 'damaged');
    await (await takeLock(folder, 'a')).release();
    expect(await readdir(folder)).to.deep.equal(['a.lock.10']);
  });

  it('runs short tasks one after another', async () => {
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 8 }, () =>
        withLock(folder, 'b', async () => {
          most = Math.max(most, ++inside);
          await new Promise((resolve) => setTimeout(resolve, 2));
          inside -= 1;
        }),
      ),
    );
    expect([inside, most]).to.deep.equal([0, 1]);
  });
});
