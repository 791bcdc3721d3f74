import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { parseLogStates } from '../../../../../src/agent/capabilities/event-logs/windows-log-states.ts';
import { windowsReader } from '../../../../../src/agent/capabilities/event-logs/windows-reader.ts';
import { ask, codeOf, never, temporaryFolder, until } from '../../../../support/agent/collect.ts';

const WEVTUTIL = fileURLToPath(new URL('./fixtures/wevtutil.mjs', import.meta.url));

describe('agent: Windows event logs through wevtutil', () => {
  let folder: string;
  let remove: () => Promise<void>;
  let calls: string;
  const states = async (names: readonly string[]) =>
    new Map(names.map((name) => [name, { recordCount: 60, maxSize: 1, lastWriteTime: '' }]));
  const reader = () => windowsReader(WEVTUTIL, states);
  const called = async (): Promise<string[][]> => {
    const lines = (await readFile(calls, 'utf8').catch(() => '')).split('\n').filter(Boolean);
    await rm(calls, { force: true });
    return lines.map((line) => JSON.parse(line) as string[]);
  };

  before(async function () {
    // The stand-in is started by its first line.
    if (process.platform === 'win32') this.skip();
    ({ folder, remove } = await temporaryFolder());
    calls = path.join(folder, 'calls');
    process.env['WEVTUTIL_CALLS'] = calls;
  });
  after(async () => {
    delete process.env['WEVTUTIL_CALLS'];
    await remove?.();
  });
  beforeEach(() => writeFile(calls, ''));

  it('lists the logs with one process, and says that there are more', async () => {
    const logs = await reader().list(never);
    expect(logs).to.have.length(60);
    expect(logs[0]).to.include({ name: 'Application', recordCount: 60 });
    expect(logs.at(-1)?.note).to.equal(
      'The list ends here; 13 more logs are not listed and can be read by name.',
    );
    expect((await called()).map(([verb]) => verb)).to.deep.equal(['el']);
  });

  it('lists them with one process a log if PowerShell cannot be used', async () => {
    const alone = windowsReader(WEVTUTIL, async () => {
      throw new Error('not here');
    });
    expect((await alone.list(never))[0]).to.include({
      recordCount: 60,
      lastWriteTime: '2026-01-05T10:11:12.123Z',
    });
    expect(await called()).to.have.length(61);
  }).timeout(30_000);

  it('asks for no more than a page, and renders nothing else', async () => {
    const first = await ask(reader(), { name: 'system', limit: 10 });
    expect(first.rows.map(({ message }) => message)[0]).to.equal('message 60');
    expect(first.summary).to.deep.equal({ scanned: 10, truncated: false });
    expect(await called()).to.deep.equal([
      ['qe', 'system', '/q:*', '/rd:true', '/c:10', '/f:RenderedXml', '/uni:true'],
    ]);
    const third = await ask(reader(), { name: 'System', limit: 10, page: 3 });
    expect(third.rows.map(({ message }) => message)).to.deep.equal(
      Array.from({ length: 10 }, (_, n) => `message ${40 - n}`),
    );
    const asked = await called();
    expect(asked).to.have.length(2);
    expect(asked[0]).to.include('/c:30').and.include('/f:XML');
    expect(asked[1]?.[2]).to.match(
      /^\/q:\*\[System\[\(EventRecordID=40 or (?:EventRecordID=\d+ or ){8}EventRecordID=31\)\]\]$/,
    );
  });

  it('names the provider in the query, in its own case', async () => {
    const own = reader();
    const { rows } = await ask(own, { name: 'System', source: 'DISK', limit: 5 });
    expect(rows.map(({ recordId }) => recordId)).to.deep.equal([60, 56, 52, 48, 44]);
    const asked = await called();
    expect(asked.map(([verb]) => verb)).to.deep.equal(['ep', 'qe']);
    expect(asked[1]?.[2]).to.equal("/q:*[System[Provider[@Name='Disk']]]");
    // A source that is not installed any more is compared with those of the events, without their messages.
    expect((await ask(own, { name: 'System', source: 'Gone' })).rows).to.deep.equal([]);
    expect((await called()).every((args) => !args.includes('/f:RenderedXml'))).to.equal(true);
  });

  it('finds refused sign-ins as warnings, and texts in messages', async () => {
    const warnings = (await ask(reader(), { name: 'System', level: ['warning'] })).rows;
    expect(warnings.map(({ recordId }) => recordId)).to.include(30);
    const found = await ask(reader(), { name: 'System', text: 'MESSAGE 17' });
    expect(found.rows.map(({ recordId }) => recordId)).to.deep.equal([17]);
    expect(found.summary).to.deep.equal({ scanned: 60, truncated: false, total: 1 });
  });

  it('looks a name up only if there is nothing', async () => {
    expect(await codeOf(ask(reader(), { name: 'Nothing' }))).to.equal('LOG_NOT_FOUND');
    expect(await codeOf(ask(reader(), { name: '/lf:true' }))).to.equal('LOG_NOT_FOUND');
    expect(await codeOf(reader().get('Nothing', never))).to.equal('LOG_NOT_FOUND');
    expect(await codeOf(reader().record('Nothing', 1, never))).to.equal('LOG_NOT_FOUND');
    expect(await codeOf(reader().record('System', 99, never))).to.equal('RECORD_NOT_FOUND');
    expect((await reader().record('System', 42, never)).message).to.equal('message 42');
    expect((await reader().get('system', never)).name).to.equal('System');
    expect((await ask(reader(), { name: 'Log0' })).summary).to.deep.equal({
      scanned: 0,
      truncated: false,
      total: 0,
    });
  }).timeout(30_000);

  it('follows forwarded events, whose record ids are those of other computers', async () => {
    const stop = new AbortController();
    const tail = reader().tail({ name: 'ForwardedEvents' }, stop.signal);
    const { value } = await tail.next();
    expect(value).to.include({ recordId: 5, computer: 'second' });
    stop.abort();
    await tail.return();
  }).timeout(30_000);

  it('shows what it has found when its time is up, with the data of events whose messages are late', async () => {
    const timeUp = new AbortController();
    const answer = ask(reader(), { name: 'Log2', limit: 10, page: 2 }, timeUp.signal);
    await until(
      async () => (await readFile(calls, 'utf8')).includes('EventRecordID='),
      'rendering has begun',
    );
    timeUp.abort();
    const { rows, summary } = await answer;
    expect(rows.map(({ message }) => message)).to.deep.equal(
      Array.from({ length: 10 }, (_, n) => `data ${50 - n}`),
    );
    expect(summary).to.deep.equal({ scanned: 20, truncated: true });
  }).timeout(30_000);

  it('says how many events could not be read', async () => {
    const { summary } = await ask(reader(), { name: 'Log1' });
    expect(summary).to.deep.equal({ scanned: 60, truncated: true, note: '1 record could not be read.' });
  });

  it('reads what PowerShell says about the logs', () => {
    const answer =
      '[{"name":"System","count":"12","maxSize":"20971520","written":"2026-01-05T10:11:12.1230000Z"},{"name":"X","count":"","maxSize":"","written":""}]';
    expect([...parseLogStates(answer)]).to.deep.equal([
      ['System', { recordCount: 12, maxSize: 20_971_520, lastWriteTime: '2026-01-05T10:11:12.123Z' }],
      ['X', { recordCount: 0, maxSize: 0, lastWriteTime: '' }],
    ]);
  });
});
