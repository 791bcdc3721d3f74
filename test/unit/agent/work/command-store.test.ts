import {
  appendFile,
  open as openFile,
  readdir,
  readFile,
  stat,
  writeFile,
  type FileHandle,
} from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import sinon from 'sinon';
import { CommandStore } from '../../../../src/agent/work/command-store.ts';
import { JournalFile } from '../../../../src/agent/work/journal-file.ts';
import type { CommandResult } from '../../../../src/protocol/index.ts';
import { journalIn, temporaryFolder } from '../../../support/agent/test-agent.ts';

const AT = '2026-11-20T10:00:00.000Z';
const frame = (id: string, payload: unknown = { content: 'é\n"' }) => ({
  id,
  type: 'script.run',
  payload,
  epoch: 3,
  deadline: AT,
  attempt: 1,
});
const result = (id: string, output: unknown = { stdout: 'ü' }): CommandResult => ({
  id,
  epoch: 3,
  status: 'succeeded',
  output,
  startedAt: AT,
  finishedAt: AT,
});

describe('the store of durable commands', () => {
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let file: string;
  let warnings: string[];
  const stores: CommandStore[] = [];

  beforeEach(async () => {
    temporary = await temporaryFolder();
    file = journalIn(path.join(temporary.folder, 'data'));
    warnings = [];
  });
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    await temporary.remove();
  });

  /** As after a start of the agent. */
  async function open(options: { now?: () => number; keepIds?: number } = {}) {
    const store = new CommandStore(new JournalFile(file, (message) => warnings.push(message)), options);
    stores.push(store);
    return Object.assign(store, await store.open());
  }
  const stateOf = (store: CommandStore, id: string) => {
    const entry = store.get(id);
    if (entry === undefined) return store.isDone(id) ? 'done' : 'unknown';
    if (entry.result !== undefined) return 'finished';
    return entry.startedAt === undefined ? 'accepted' : 'started';
  };

  it('knows after a restart which commands were accepted, started, finished and delivered', async () => {
    const store = await open();
    for (const id of ['a', 'b', 'c', 'd']) await store.accept(frame(id));
    for (const id of ['b', 'c', 'd']) await store.start(id, AT);
    for (const id of ['c', 'd']) await store.finish(result(id));
    await store.done('d');
    const again = await open();
    expect(['a', 'b', 'c', 'd', 'e'].map((id) => stateOf(again, id))).to.deep.equal([
      'accepted',
      'started',
      'finished',
      'done',
      'unknown',
    ]);
    expect(again.get('a')).to.deep.include({ type: 'script.run', epoch: 3, payload: { content: 'é\n"' } });
    expect(again.get('c')!.result).to.deep.equal(result('c'));
    expect(again.interrupted.map(({ id }) => id)).to.deep.equal(['b']);
    expect(warnings).to.deep.equal([]);
  });

  it('creates its file without access for other users', async () => {
    await (await open()).accept(frame('a'));
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    expect((await stat(path.dirname(file))).mode & 0o777).to.equal(0o700);
  });

  it('loses no complete record when the journal ends at any byte', async () => {
    const store = await open();
    const ends: [number, string][] = [];
    const note = async (state: string) => ends.push([(await stat(file)).size, state]);
    await store.accept(frame('a'));
    await note('accepted');
    await store.start('a', AT);
    await note('started');
    await store.finish(result('a'));
    await note('finished');
    await store.done('a');
    await note('done');
    const whole = await readFile(file);
    for (let length = 0; length <= whole.length; length++) {
      await writeFile(file, whole.subarray(0, length));
      const again = await open();
      const expected = ends.filter(([end]) => end <= length).at(-1)?.[1] ?? 'unknown';
      expect(stateOf(again, 'a'), `${length} bytes`).to.equal(expected);
      await again.accept(frame('next'));
      const once = await open();
      expect([stateOf(once, 'a'), stateOf(once, 'next')]).to.deep.equal([expected, 'accepted']);
      for (const used of stores.splice(0)) await used.close();
    }
    expect(warnings).to.deep.equal([]);
  });

  it('removes the rest of a long line that was cut off before it writes a short one', async () => {
    await (await open()).accept(frame('a'));
    await appendFile(file, `12345678 {"kind":"accepted",${'x'.repeat(5000)}`);
    await (await open()).start('a', AT);
    expect(stateOf(await open(), 'a')).to.equal('started');
    expect(warnings).to.deep.equal([]);
  });

  it('does not accept a command before the disk has confirmed it', async () => {
    const store = await open();
    await store.accept(frame('before'));
    const handle = await openFile(file, 'r');
    const fileHandle = Object.getPrototypeOf(handle) as FileHandle;
    await handle.close();
    const datasync = sinon.stub(fileHandle, 'datasync').onFirstCall().rejects(new Error('EIO'));
    datasync.callThrough();
    try {
      const failed = await Promise.allSettled([store.accept(frame('a')), store.accept(frame('b'))]);
      expect(failed.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
      expect(stateOf(store, 'a')).to.equal('unknown');
      expect(stateOf(await open(), 'a')).to.equal('unknown');
      await store.accept(frame('c'));
    } finally {
      datasync.restore();
    }
    expect((await open()).entries().map(({ id }) => id)).to.deep.equal(['before', 'c']);
    expect(warnings).to.deep.equal([]);
  });

  it('never treats a command with damaged records as one that has not started', async () => {
    const store = await open();
    await store.accept(frame('begun'));
    await store.start('begun', AT);
    await store.accept(frame('last'));
    const whole = await readFile(file);
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 2), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
        const damaged = Buffer.from(whole);
        damaged[at]! ^= bits;
        await writeFile(file, damaged);
        const again = await open();
        expect(stateOf(again, 'begun')).not.to.equal('finished');
        const isBegunAgain = (one: typeof again) =>
          stateOf(one, 'begun') === 'accepted' && !one.interrupted.some(({ id }) => id === 'begun');
        expect(isBegunAgain(again)).to.equal(false);
        for (const { id } of again.interrupted) await again.finish(result(id));
        await again.compactIfLarge();
        expect(isBegunAgain(await open())).to.equal(false);
        for (const used of stores.splice(0)) await used.close();
      }),
      { numRuns: 150 },
    );
  });

  it('keeps a damaged journal, reports it, and continues with the readable records', async () => {
    const store = await open();
    for (const id of ['a', 'b', 'c']) await store.accept(frame(id));
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace('"b"', '"x"'));
    const again = await open();
    expect(['a', 'b', 'x', 'c'].map((id) => stateOf(again, id))).to.deep.equal([
      'accepted',
      'unknown',
      'unknown',
      'accepted',
    ]);
    expect(again.interrupted.map(({ id }) => id)).to.deep.equal(['a', 'c']);
    await again.compactIfLarge();
    const aside = (await readdir(path.dirname(file))).find((name) => name.includes('damaged'));
    expect(warnings.join()).to.contain(aside);
    expect(await readFile(path.join(path.dirname(file), aside!), 'utf8')).to.contain('"x"');
    await open();
    expect(warnings).to.have.length(1);
  });

  it('starts with a journal that holds no readable record', async () => {
    await open();
    await writeFile(file, Buffer.from(Array.from({ length: 5000 }, (_value, index) => (index * 7919) % 256)));
    const store = await open();
    await store.compactIfLarge();
    await store.accept(frame('a'));
    expect(stateOf(await open(), 'a')).to.equal('accepted');
  });

  it('writes simultaneous records together, in their order', async () => {
    const store = await open();
    const ids = Array.from({ length: 500 }, (_value, index) => `n${index}`);
    await Promise.all(ids.map((id) => store.accept(frame(id))));
    expect((await open()).entries().map(({ id }) => id)).to.deep.equal(ids);
  });

  it('stays small over many commands, and loses none while it is compacted', async function () {
    const store = await open();
    const output = { stdout: 'x'.repeat(20_000) };
    await store.accept(frame('waiting'));
    for (let round = 0; round < 40; round++) {
      const ids = Array.from({ length: 10 }, (_value, index) => `r${round}-${index}`);
      await Promise.all(
        ids.map(async (id) => {
          await store.accept(frame(id));
          await store.start(id, AT);
          await store.finish(result(id, output));
          await store.done(id);
        }),
      );
      expect((await stat(file)).size).to.be.below(3_000_000);
    }
    const again = await open();
    expect(stateOf(again, 'waiting')).to.equal('accepted');
    expect(again.get('waiting')!.payload).to.deep.equal(frame('waiting').payload);
    for (let round = 0; round < 40; round++) expect(stateOf(again, `r${round}-9`)).to.equal('done');
    expect((await readdir(path.dirname(file))).sort()).to.deep.equal(['commands.journal']);
  });

  it('loses no record that is written while it is compacted', async () => {
    const store = await open();
    const large = { stdout: 'x'.repeat(700_000) };
    const ids = Array.from({ length: 60 }, (_value, index) => `n${index}`);
    // Small records come at any moment, while others make the journal large, and so smaller.
    const accepted: Promise<void>[] = [];
    const ticker = setInterval(() => {
      accepted.push(store.accept(frame(`small-${accepted.length}`)));
    }, 1);
    for (const id of ids) {
      await store.accept(frame(id));
      await store.finish(result(id, large));
      await store.done(id);
    }
    clearInterval(ticker);
    await Promise.all(accepted);
    expect((await stat(file)).size).to.be.below(10_000_000);
    const again = await open();
    expect(again.entries().map(({ id }) => id)).to.deep.equal(
      accepted.map((_kept, index) => `small-${index}`),
    );
    expect(ids.filter((id) => !again.isDone(id))).to.deep.equal([]);
  });

  it('remembers delivered ids for a week, and only the newest if they are too many', async () => {
    const DAY = 86_400_000;
    let now = 100 * DAY;
    const store = await open({ now: () => now, keepIds: 3 });
    const over = async (id: string) => {
      await store.accept(frame(id));
      await store.finish(result(id));
      await store.done(id);
    };
    for (const id of ['a', 'b', 'c', 'd']) await over(id);
    expect(['a', 'b', 'c', 'd'].map((id) => store.isDone(id))).to.deep.equal([false, true, true, true]);
    now += 6 * DAY;
    await over('e');
    expect(store.isDone('d')).to.equal(true);
    now += 1.5 * DAY;
    const again = await open({ now: () => now });
    expect(again.isDone('c'), 'at the start nobody knows what time it is').to.equal(true);
    await again.accept(frame('f'));
    await again.finish(result('f'));
    await again.done('f');
    expect(['c', 'd', 'e'].map((id) => again.isDone(id))).to.deep.equal([false, false, true]);
  });
});
