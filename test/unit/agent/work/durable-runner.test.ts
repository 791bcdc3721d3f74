import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { DEFAULT_STOP_MS, type DurableHandlers } from '../../../../src/agent/work/handler.ts';
import { JournalFile, type Journal, type JournalRecord } from '../../../../src/agent/work/journal-file.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import {
  journalIn,
  passWait,
  startTestAgent,
  temporaryFolder,
  type TestAgent,
} from '../../../support/agent/test-agent.ts';

const SCRIPT = { language: 'bash', content: 'true', timeoutSeconds: 60 };
const OUTPUT = { exitCode: 0, stdout: '', stderr: '', truncated: false };

describe('durable commands on the agent', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let agent: TestAgent;
  /** What has been begun, in order; each ends when the test lets it. */
  let begun: string[];
  let letEnd: Map<string, () => void>;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
    begun = [];
    letEnd = new Map();
  });
  afterEach(async () => {
    await agent.stop();
    await hub.close();
    await temporary.remove();
  });

  /** Scripts say by their content who they are. */
  const held: DurableHandlers = {
    'script.run': ({ content }, { signal }) =>
      new Promise((resolve, reject) => {
        begun.push(content);
        letEnd.set(content, () => resolve(OUTPUT));
        signal.addEventListener('abort', () => reject(new Error('aborted')));
      }),
  };
  const instant: DurableHandlers = {
    async 'script.run'({ content }) {
      begun.push(content);
      return OUTPUT;
    },
  };
  async function start(work: DurableHandlers, journal?: Journal): Promise<void> {
    const connections = hub.sockets.length;
    agent = await startTestAgent({
      server: hub.url,
      dataDir: temporary.folder,
      work,
      ...(journal === undefined ? {} : { journal }),
    });
    await connected(connections + 1);
  }
  const connected = (count: number) =>
    eventually(
      async () => {
        await passWait(agent, testClock);
        return hub.sockets.length;
      },
      (length) => length === count,
    );
  const send = (name: string, epoch = 7) =>
    hub.receipt('script.run', { ...SCRIPT, content: name }, { id: name, epoch });
  const results = (count: number) =>
    eventually(
      async () => {
        await passWait(agent, testClock);
        return hub.results;
      },
      (list) => list.length >= count,
    );
  const begunAre = (names: string[]) =>
    eventually(
      () => begun,
      (list) => list.length >= names.length,
    ).then((list) => expect(list).to.deep.equal(names));
  /** For what the network and the disk still do, which have no clock. */
  const stillness = () => new Promise((resolve) => setTimeout(resolve, 30));
  /** After that time of the agent. */
  const soon = async (ms = 300) => {
    await stillness();
    await testClock.advance(ms);
    await stillness();
  };

  it('are started once, however often they are sent', async () => {
    await start(held);
    const receipts = await Promise.all([send('a'), send('a'), send('a')]);
    expect(receipts).to.deep.equal([{ ok: true }, { ok: true }, { ok: true }]);
    await begunAre(['a']);
    expect(await send('a')).to.deep.equal({ ok: true });
    letEnd.get('a')!();
    await results(1);
    await soon();
    expect(await send('a')).to.deep.equal({ ok: true });
    await soon();
    expect([begun, hub.results.map(({ id }) => id)]).to.deep.equal([['a'], ['a']]);
  });

  it('report that they have started, and their result', async () => {
    await start(held);
    await send('a', 41);
    await begunAre(['a']);
    await eventually(
      () => hub.progress,
      (list) => list.length === 1,
    );
    expect(hub.progress[0]).to.deep.equal({ id: 'a', seq: 0, phase: 'running' });
    letEnd.get('a')!();
    const [result] = await results(1);
    expect(result).to.deep.include({ id: 'a', epoch: 41, status: 'succeeded', output: OUTPUT });
    expect(Date.parse(result!.finishedAt)).to.be.at.least(Date.parse(result!.startedAt));
  });

  it('run two at a time, in the order accepted, beside live queries', async () => {
    agent = await startTestAgent({
      server: hub.url,
      dataDir: temporary.folder,
      work: held,
      live: { 'eventlogs.list': async () => ({ logs: [] }) },
    });
    await connected(1);
    const names = Array.from({ length: 12 }, (_value, index) => `n${index}`);
    await Promise.all(names.map((name) => send(name)));
    await begunAre(['n0', 'n1']);
    await soon();
    expect(begun).to.have.length(2);
    const question = await hub.command('eventlogs.list', {});
    expect((await results(1))[0]!.id).to.equal(question);
    for (const [index, name] of names.entries()) {
      letEnd.get(name)!();
      await begunAre(names.slice(0, Math.min(names.length, index + 3)));
    }
    await results(13);
  });

  it('continue without a connection, and report the result over the next one under their own epoch', async () => {
    await start(held);
    await send('a', 5);
    await begunAre(['a']);
    hub.refuse = { code: 'BUSY', retryAfterMs: 300 };
    hub.sockets[0]!.disconnect(true);
    await soon();
    letEnd.get('a')!();
    await soon();
    expect(hub.results).to.have.length(0);
    hub.refuse = undefined;
    const [result] = await results(1);
    expect(result).to.deep.include({ id: 'a', epoch: 5, status: 'succeeded' });
    expect(agent.warnings).to.deep.equal([]);
    expect(begun).to.deep.equal(['a']);
  });

  it('report to a new connection that they are running', async () => {
    await start(held);
    await send('a');
    const reports = (count: number) =>
      eventually(
        () => hub.progress,
        (list) => list.length === count,
      );
    await begunAre(['a']);
    await reports(1);
    hub.sockets[0]!.disconnect(true);
    await connected(2);
    await reports(2);
    expect(hub.progress.map(({ seq }) => seq)).to.deep.equal([0, 1]);
  });

  it('report progress at most once a second, and the last report before the result', async () => {
    let report = (_percent: number) => {};
    await start({
      'script.run': (_script, { progress }) =>
        new Promise((resolve) => {
          report = (percent) => progress({ phase: 'copying', percent });
          letEnd.set('a', () => resolve(OUTPUT));
          begun.push('a');
        }),
    });
    await send('a');
    await begunAre(['a']);
    for (let percent = 0; percent <= 100; percent++) report(percent);
    letEnd.get('a')!();
    await results(1);
    expect(hub.progress.map(({ seq, phase, percent }) => [seq, phase, percent])).to.deep.equal([
      [0, 'running', undefined],
      [1, 'copying', 100],
    ]);
  });

  it('run a reboot while all places of the scripts are taken', async () => {
    await start({
      ...held,
      async 'agent.reboot'() {
        begun.push('reboot');
        return {};
      },
    });
    for (const name of ['a', 'b', 'c']) await send(name);
    await begunAre(['a', 'b']);
    const id = await hub.command('agent.reboot', {});
    expect((await results(1))[0]).to.include({ id, status: 'succeeded' });
    expect(begun).to.deep.equal(['a', 'b', 'reboot']);
  });

  it('have the time to stop that their handler declares', async () => {
    let stopped = () => {};
    await start({
      'script.run': {
        stopMs: 60_000,
        run: ({ content }, { signal }) =>
          new Promise((resolve) => {
            begun.push(content);
            stopped = () => resolve(OUTPUT);
            signal.addEventListener('abort', () => begun.push('stopping'));
          }),
      },
    });
    await send('a');
    await begunAre(['a']);
    let hasStopped = false;
    const stopping = agent.stop().then(() => (hasStopped = true));
    await begunAre(['a', 'stopping']);
    // Longer than the agent waits for a handler that declares nothing.
    await soon(DEFAULT_STOP_MS + 200);
    expect(hasStopped).to.equal(false);
    stopped();
    await stopping;
    await start(instant);
    expect((await results(1))[0]).to.include({ id: 'a', status: 'succeeded' });
  });

  it('send a result until it is acknowledged, over however many connections, and not once more', async () => {
    await start(instant);
    hub.forgetAcks = 3;
    await send('a');
    for (let count = 1; count <= 3; count++) {
      await results(count);
      hub.sockets.at(-1)!.disconnect(true);
      await connected(count + 1);
    }
    await results(4);
    await soon(1500);
    expect(hub.results.map(({ id }) => id)).to.deep.equal(['a', 'a', 'a', 'a']);
    hub.sockets.at(-1)!.disconnect(true);
    await connected(5);
    await soon();
    expect([hub.results.length, begun]).to.deep.equal([4, ['a']]);
  });

  it('send the result again to a hub that sends the command again', async () => {
    await start(instant);
    hub.refuseResults = 'INTERNAL';
    await send('a');
    await results(1);
    await soon();
    expect(hub.results).to.have.length(1);
    hub.refuseResults = undefined;
    expect(await send('a', 9)).to.deep.equal({ ok: true });
    await results(2);
    expect(hub.results.map(({ epoch }) => epoch)).to.deep.equal([7, 9]);
    expect(begun).to.deep.equal(['a']);
  });

  it('are not blocked by the result of another one that the hub refuses', async () => {
    await start(instant);
    hub.refuseResults = 'VALIDATION_FAILED';
    await send('a');
    await results(1);
    await soon(100);
    hub.refuseResults = undefined;
    await send('b');
    await results(2);
    expect(hub.results[1]!.id).to.equal('b');
    expect(agent.warnings.join()).to.contain('did not accept');
  });

  it('send a refused result again over the next connection', async () => {
    await start(instant);
    hub.refuseResults = 'INTERNAL';
    await send('a');
    await results(1);
    hub.refuseResults = undefined;
    hub.sockets[0]!.disconnect(true);
    await results(2);
    expect(hub.results[1]!.id).to.equal('a');
  });

  it('are resumed after a restart: waiting ones are started, running ones are not repeated', async () => {
    await start(held);
    for (const name of ['a', 'b', 'c', 'd']) await send(name);
    await begunAre(['a', 'b']);
    await agent.stop();
    await soon();
    expect(hub.results).to.have.length(0);
    begun = [];
    await start(instant);
    await results(4);
    expect(begun).to.deep.equal(['c', 'd']);
    expect(hub.results.map(({ id, status, error }) => [id, status, error?.code])).to.have.deep.members([
      ['a', 'failed', 'INTERRUPTED'],
      ['b', 'failed', 'INTERRUPTED'],
      ['c', 'succeeded', undefined],
      ['d', 'succeeded', undefined],
    ]);
    await soon();
    await agent.stop();
    await start(instant);
    for (const name of ['a', 'b', 'c', 'd']) expect(await send(name)).to.deep.equal({ ok: true });
    await soon();
    expect([begun, hub.results.length]).to.deep.equal([['c', 'd'], 4]);
  });

  it('send a result again after a restart if it was not acknowledged', async () => {
    await start(instant);
    hub.forgetAcks = 1;
    await send('a', 3);
    await results(1);
    await agent.stop();
    await start(instant);
    await results(2);
    expect(hub.results.map(({ id, epoch }) => [id, epoch])).to.deep.equal([
      ['a', 3],
      ['a', 3],
    ]);
    expect(begun).to.deep.equal(['a']);
  });

  it('are never started, even after a restart, when they were cancelled while waiting', async () => {
    await start(held);
    for (const name of ['a', 'b', 'c']) await send(name);
    await begunAre(['a', 'b']);
    expect(await hub.cancel('c')).to.deep.equal({ ok: true });
    const [result] = await results(1);
    expect([result!.id, result!.status]).to.deep.equal(['c', 'cancelled']);
    letEnd.get('a')!();
    letEnd.get('b')!();
    await results(3);
    await agent.stop();
    await start(instant);
    await send('c');
    await soon();
    expect(begun).to.deep.equal(['a', 'b']);
  });

  it('is cancelled while it runs', async () => {
    await start(held);
    await send('a');
    await begunAre(['a']);
    await hub.cancel('a');
    const [result] = await results(1);
    expect([result!.id, result!.status]).to.deep.equal(['a', 'cancelled']);
    await eventually(
      () => agent.durable.running,
      (count) => count === 0,
    );
  });

  it('are not changed by a cancellation after their end or one with an unknown id', async () => {
    await start(instant);
    await send('a');
    await results(1);
    expect(await hub.cancel('a')).to.deep.equal({ ok: true });
    expect(await hub.cancel('never-heard-of')).to.deep.equal({ ok: true });
    await soon();
    expect(hub.results.map(({ status }) => status)).to.deep.equal(['succeeded']);
  });

  it('ignore the deadline of the frame: they have their own time limit', async () => {
    await start(held);
    await hub.receipt('script.run', { ...SCRIPT, content: 'a' }, { id: 'a', deadlineMs: -3_600_000 });
    await begunAre(['a']);
    await soon();
    letEnd.get('a')!();
    expect((await results(1))[0]!.status).to.equal('succeeded');
  });

  it('fail with a code for unsupported types and invalid payloads', async () => {
    await start({ 'script.run': async () => OUTPUT });
    const cases = [
      ['agent.reboot', {}, 'CAPABILITY_MISSING'],
      ['script.run', { language: 'cobol' }, 'INVALID_PAYLOAD'],
    ] as const;
    for (const [type, payload, code] of cases) {
      const id = await hub.command(type, payload);
      const result = await eventually(
        () => hub.results.find((candidate) => candidate.id === id),
        (found) => found !== undefined,
      );
      expect([result?.status, result?.error?.code], type).to.deep.equal(['failed', code]);
    }
  });

  it('fail with a message when their output is too large, and keep the connection', async () => {
    await start({ 'script.run': async () => ({ ...OUTPUT, stdout: 'x'.repeat(1_500_000) }) });
    await send('a');
    const [result] = await results(1);
    expect([result!.status, result!.error!.message]).to.deep.equal([
      'failed',
      'The output was too large to be sent.',
    ]);
    expect(hub.sockets).to.have.length(1);
  });

  it('stream rows while there is a connection, and drop them otherwise', async () => {
    let row = async (_text: string) => {};
    await start({
      'script.run': (_script, { rows }) =>
        new Promise((resolve) => {
          begun.push('a');
          letEnd.set('a', () => resolve(OUTPUT));
          row = (text) => rows([{ stream: 'stdout', text }]);
        }),
    });
    await send('a');
    await begunAre(['a']);
    await row('one');
    hub.refuse = { code: 'BUSY', retryAfterMs: 300 };
    hub.sockets[0]!.disconnect(true);
    await soon(100);
    await row('lost');
    hub.refuse = undefined;
    await connected(2);
    // The agent reports over the new connection that the command still runs.
    await eventually(
      () => hub.progress,
      (list) => list.length === 2,
    );
    await row('two');
    letEnd.get('a')!();
    await results(1);
    expect(hub.rows.flatMap(({ rows }) => rows)).to.deep.equal([
      { stream: 'stdout', text: 'one' },
      { stream: 'stdout', text: 'two' },
    ]);
  });

  it('are accepted up to two hundred, and refused as busy above that', async () => {
    await start(held);
    const receipts = await Promise.all(Array.from({ length: 201 }, (_value, index) => send(`n${index}`)));
    expect(receipts.filter(({ ok }) => ok)).to.have.length(200);
    expect(receipts.at(-1)).to.deep.include({ ok: false });
  });

  describe('with secrets', () => {
    const REF = '01a20000-0000-7000-8000-000000000001';
    const withSecret = { ...SCRIPT, secrets: { TOKEN: { secretRef: REF } } };
    const seen: (string | undefined)[] = [];
    const revealing: DurableHandlers = {
      'script.run': ({ content, secrets }, context) => {
        seen.push(secrets?.['TOKEN'] === undefined ? undefined : context.secret(secrets['TOKEN']));
        return (held['script.run'] as (payload: object, context: object) => Promise<typeof OUTPUT>)(
          { content },
          context,
        );
      },
    };
    const sendSecret = (
      name: string,
      secrets: Record<string, string> = { [REF]: 's3cr3t' },
      receiptMs?: number,
    ) =>
      hub.receipt(
        'script.run',
        { ...withSecret, content: name },
        { id: name, secrets, ...(receiptMs === undefined ? {} : { receiptMs }) },
      );
    beforeEach(() => {
      seen.length = 0;
    });

    it('pass them to the handler and keep them off the disk', async () => {
      await start(revealing);
      expect(await sendSecret('a')).to.deep.equal({ ok: true });
      await begunAre(['a']);
      expect(seen).to.deep.equal(['s3cr3t']);
      const journal = await readFile(journalIn(temporary.folder), 'utf8');
      expect(journal).to.contain(REF).and.not.contain('s3cr3t');
    });

    it('are accepted only when they can start at once, because the secrets cannot wait on disk', async () => {
      await start(revealing);
      for (const name of ['a', 'b']) await send(name);
      await begunAre(['a', 'b']);
      expect(await sendSecret('c')).to.have.nested.property('error.code', 'BUSY');
      letEnd.get('a')!();
      await results(1);
      expect(await sendSecret('c')).to.deep.equal({ ok: true });
      await begunAre(['a', 'b', 'c']);
      expect(seen).to.deep.equal([undefined, undefined, 's3cr3t']);
    });

    it('fail if a secret is missing in the frame', async () => {
      await start(revealing);
      await sendSecret('a', {});
      const [result] = await results(1);
      expect(result).to.have.nested.property('error.code', 'SECRET_UNAVAILABLE');
    });

    it('get no receipt before their start is on disk, and start with the next delivery after a restart', async () => {
      let tried = 0;
      class NoStart extends JournalFile {
        override async write(record: JournalRecord, onWritten?: () => void): Promise<void> {
          if (record.kind === 'started') {
            tried += 1;
            throw new Error('the disk is full');
          }
          await super.write(record, onWritten);
        }
      }
      await start(revealing, new NoStart(journalIn(temporary.folder), () => {}));
      const receipt = await sendSecret('a', undefined, 200).catch((error: unknown) => error);
      expect(receipt).to.be.instanceOf(Error);
      await eventually(
        () => tried,
        (count) => count > 0,
      );
      await agent.stop();
      await start(revealing);
      expect(hub.results).to.deep.equal([]);
      expect(await sendSecret('a')).to.deep.equal({ ok: true });
      await begunAre(['a']);
      expect(seen).to.deep.equal(['s3cr3t']);
    });
  });

  describe('with a failing disk', () => {
    /** The real file, and a disk that is full when the test says so. */
    class FailingJournal extends JournalFile {
      fails: (record: JournalRecord) => boolean = () => false;
      override write(record: JournalRecord, written?: () => void): Promise<void> {
        if (this.fails(record)) return Promise.reject(new Error('ENOSPC: no space left on device'));
        return super.write(record, written);
      }
    }
    let journal: FailingJournal;
    beforeEach(() => {
      journal = new FailingJournal(journalIn(temporary.folder), () => {});
    });

    it('are refused and not run', async () => {
      await start(instant, journal);
      journal.fails = () => true;
      const receipt = await send('a');
      expect(receipt).to.have.nested.property('error.code', 'STORE_UNAVAILABLE');
      await soon();
      expect([begun, hub.results]).to.deep.equal([[], []]);
      journal.fails = () => false;
      expect(await send('a')).to.deep.equal({ ok: true });
      await results(1);
      expect(begun).to.deep.equal(['a']);
    });

    it('wait when they were accepted and their start cannot be written', async () => {
      await start(instant, journal);
      journal.fails = ({ kind }) => kind === 'started';
      expect(await send('a')).to.deep.equal({ ok: true });
      await soon();
      expect(begun).to.deep.equal([]);
      journal.fails = () => false;
      await begunAre(['a']);
    });

    it('report a result that cannot be written, and are not started again after a restart', async () => {
      await start(instant, journal);
      journal.fails = ({ kind }) => kind === 'finished';
      await send('a');
      expect((await results(1))[0]!.status).to.equal('succeeded');
      await agent.stop();
      await start(instant);
      await soon();
      expect(begun).to.deep.equal(['a']);
    });

    it('answer a cancellation that cannot be written with an error, and stay accepted', async () => {
      await start(held, journal);
      for (const name of ['a', 'b', 'c']) await send(name);
      journal.fails = () => true;
      expect(await hub.cancel('c')).to.have.nested.property('error.code', 'STORE_UNAVAILABLE');
      journal.fails = () => false;
      letEnd.get('a')!();
      await begunAre(['a', 'b', 'c']);
    });

    it('are not started while their cancellation is being written', async () => {
      let written = () => {};
      class SlowJournal extends JournalFile {
        override async write(record: JournalRecord, onWritten?: () => void): Promise<void> {
          if (record.kind === 'finished' && record.result.id === 'c') {
            await new Promise<void>((resolve) => {
              written = resolve;
            });
          }
          await super.write(record, onWritten);
        }
      }
      await start(held, new SlowJournal(journalIn(temporary.folder), () => {}));
      for (const name of ['a', 'b', 'c', 'd']) await send(name);
      const cancelled = hub.cancel('c');
      await soon(100);
      letEnd.get('a')!();
      await begunAre(['a', 'b', 'd']);
      written();
      expect(await cancelled).to.deep.equal({ ok: true });
      const [, result] = await results(2);
      expect([result!.id, result!.status]).to.deep.equal(['c', 'cancelled']);
    });

    it('are refused while the folder cannot be used, and accepted as soon as it can', async () => {
      const blocked = path.join(temporary.folder, 'blocked');
      await writeFile(blocked, 'a file where the folder should be');
      await start(instant, new JournalFile(path.join(blocked, 'commands.journal'), () => {}));
      expect(agent.warnings.join()).to.contain('could not be opened');
      expect(await send('a')).to.have.nested.property('error.code', 'STORE_UNAVAILABLE');
      await rm(blocked);
      await mkdir(blocked);
      expect(await send('a')).to.deep.equal({ ok: true });
      await results(1);
    });
  });
});
