import { appendFile, mkdir, open, rename, symlink, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { parsePartName } from '../../../../../src/agent/capabilities/event-logs/text/log-files.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { LogEntry, type LogLevel } from '../../../../../src/protocol/index.ts';
import {
  ask,
  askAllPages,
  codeOf,
  never,
  temporaryFolder,
  until,
} from '../../../../support/agent/collect.ts';

const BEGIN = Date.UTC(2026, 0, 10);
const stamp = (n: number) => new Date(BEGIN + n * 1000).toISOString();
const line = (n: number, text = `message ${n}`) => `${stamp(n)} host app: ${text}\n`;
const lines = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => line(from + i)).join('');

describe('agent: text logs', () => {
  let root: string;
  let remove: () => Promise<void>;
  const reader = () => textReader({ root, pollMs: 20 });
  const put = async (name: string, content: string | Buffer) => {
    await mkdir(path.dirname(path.join(root, name)), { recursive: true });
    await writeFile(path.join(root, name), content);
  };

  beforeEach(async () => {
    ({ folder: root, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  it('reads a log and its rotated and compressed parts as one, newest first', async () => {
    await put('app.log', lines(200, 300));
    await put('app.log.1', lines(100, 200));
    await put('app.log.2.gz', gzipSync(lines(0, 100)));
    const { rows, summary } = await ask(reader(), { name: 'app.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(
      Array.from({ length: 300 }, (_, i) => `message ${299 - i}`),
    );
    expect(summary).to.deep.equal({ scanned: 300, truncated: false, total: 300 });
    expect(new Set(rows.map(({ recordId }) => recordId)).size).to.equal(300);
    for (const row of rows) expect(LogEntry.safeParse(row).success).to.equal(true);
  });

  it('finds every record by its id, also after the log was rotated and compressed', async () => {
    await put('app.log', lines(10, 20));
    await put('app.log.1', lines(0, 10));
    const { rows } = await ask(reader(), { name: 'app.log' });
    await put('app.log.3.gz', gzipSync(lines(0, 10)));
    await rename(path.join(root, 'app.log'), path.join(root, 'app.log.1'));
    await put('app.log', lines(20, 21));
    for (const row of rows) expect(await reader().record('app.log', row.recordId, never)).to.deep.equal(row);
  });

  it('fails with RECORD_NOT_FOUND for ids at which no entry starts', async () => {
    await put('app.log', lines(0, 3));
    const { rows } = await ask(reader(), { name: 'app.log' });
    const id = rows[0]?.recordId ?? 0;
    expect(await codeOf(reader().record('app.log', id + 1, never))).to.equal('RECORD_NOT_FOUND');
    expect(await codeOf(reader().record('app.log', 7, never))).to.equal('RECORD_NOT_FOUND');
    expect(await codeOf(reader().record('app.log', Number.MAX_SAFE_INTEGER, never))).to.equal(
      'RECORD_NOT_FOUND',
    );
  });

  it('keeps characters intact at the edges of chunks', async () => {
    const text = 'ä€😀'.repeat(30);
    const many = Array.from({ length: 2_000 }, (_, n) => line(n, `${'x'.repeat(n % 7)}${text}`)).join('');
    await put('app.log', many);
    const rows = await askAllPages(reader(), { name: 'app.log', limit: 500 });
    expect(rows).to.have.length(2_000);
    for (const row of rows) expect(row.message.replace(/^x*/, '')).to.equal(text);
  });

  it('cuts a line of a million characters and continues', async () => {
    await put('app.log', line(1) + line(2, '€'.repeat(1_000_000)) + line(3));
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(rows.map(({ message }) => message.slice(0, 9))).to.deep.equal([
      'message 3',
      '€'.repeat(9),
      'message 1',
    ]);
    expect(rows[1]?.message.length).to.be.below(40_000);
    expect(rows[1]?.message).not.to.include('\uFFFD');
    expect(await reader().record('app.log', rows[1]?.recordId ?? 0, never)).to.deep.equal(rows[1]);
  });

  it('appends lines without a time to the entry before, within limits', async () => {
    await put(
      'app.log',
      `preamble\n${line(1, 'boom')}  at a\n  at b\n\n${line(2)}${'more\n'.repeat(3_000)}${line(3)}`,
    );
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(rows.map(({ message }) => message.slice(0, 20))).to.deep.equal([
      'message 3',
      'message 2\nmore\nmore\n',
      'boom\n  at a\n  at b',
      'preamble',
    ]);
    expect(rows[1]?.message.split('\n')).to.have.length(501);
    for (const row of rows) expect(await reader().record('app.log', row.recordId, never)).to.deep.equal(row);
  });

  it('reads a stanza of apt as one entry', async () => {
    const stanza = (day: number) =>
      `\nStart-Date: 2026-01-0${day}  10:00:00\nCommandline: apt-get install x${day}\nEnd-Date: 2026-01-0${day}  10:00:05\n`;
    await put('apt/history.log', stanza(1) + stanza(2));
    const { rows } = await ask(reader(), { name: 'APT/History.log' });
    expect(rows.map(({ message }) => message.split('\n')[1])).to.deep.equal([
      'Commandline: apt-get install x2',
      'Commandline: apt-get install x1',
    ]);
    expect((await reader().get('apt/history.log', never)).recordCount).to.equal(2);
  });

  it('shows a file without times line by line', async () => {
    await put('plain.log', 'one\ntwo\n');
    await utimes(path.join(root, 'plain.log'), 1_000_000, 1_000_000);
    const { rows } = await ask(reader(), { name: 'plain.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(['two', 'one']);
    expect(rows[0]?.timeCreated).to.equal('1970-01-12T13:46:40.000Z');
  });

  it('returns the same entries by pages as at once, whatever the filter', async () => {
    const LEVELS: LogLevel[] = ['information', 'warning', 'error'];
    const words = ['plain', 'warning', 'error'];
    const all = Array.from({ length: 400 }, (_, n) =>
      line(n, `${words[n % 3]} ${n % 2 ? 'Odd' : 'even'} ${n}`),
    );
    await put('app.log', all.slice(250).join(''));
    await put('app.log.1', all.slice(100, 250).join(''));
    await put('app.log.2.gz', gzipSync(all.slice(0, 100).join('')));
    const whole = (await ask(reader(), { name: 'app.log' })).rows;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 90 }),
        fc.option(fc.subarray(LEVELS, { minLength: 1 }), { nil: undefined }),
        fc.option(fc.constantFrom('odd', 'EVEN', '7', 'nothing'), { nil: undefined }),
        fc.option(fc.integer({ min: -5, max: 405 }), { nil: undefined }),
        fc.option(fc.integer({ min: -5, max: 405 }), { nil: undefined }),
        async (limit, level, text, from, to) => {
          const startTime = from === undefined ? undefined : stamp(from);
          const endTime = to === undefined ? undefined : stamp(to);
          const rows = await askAllPages(reader(), {
            name: 'app.log',
            limit,
            ...(level && { level }),
            ...(text && { text }),
            ...(startTime && { startTime }),
            ...(endTime && { endTime }),
          });
          const expected = whole.filter(
            (entry) =>
              (level === undefined || level.includes(entry.level)) &&
              (text === undefined || entry.message.toLowerCase().includes(text.toLowerCase())) &&
              (startTime === undefined || entry.timeCreated >= startTime) &&
              (endTime === undefined || entry.timeCreated <= endTime),
          );
          expect(rows).to.deep.equal(expected);
        },
      ),
      { numRuns: 25, seed: 7 },
    );
  });

  it('uses a name as a key to the list, never as a path', async () => {
    await put('app.log', line(1));
    const outside = await temporaryFolder();
    try {
      await writeFile(path.join(outside.folder, 'secret.log'), line(1));
      await symlink(path.join(outside.folder, 'secret.log'), path.join(root, 'link.log'));
      await symlink(outside.folder, path.join(root, 'folder'));
      await symlink(path.join(root, 'app.log'), path.join(root, 'inside.log'));
      const names = (await reader().list(never)).map(({ name }) => name);
      expect(names).to.deep.equal(['app.log', 'inside.log']);
      for (const name of [
        '../../etc/passwd',
        '/etc/passwd',
        './app.log',
        'app.log/',
        'link.log',
        'folder/secret.log',
        'app.log\0',
        '',
      ]) {
        expect(await codeOf(reader().get(name, never)), name).to.equal('LOG_NOT_FOUND');
        expect(await codeOf(ask(reader(), { name })), name).to.equal('LOG_NOT_FOUND');
      }
    } finally {
      await outside.remove();
    }
  });

  it('states in its metadata where the log comes from and how entries were counted', async () => {
    await put('app.log', lines(0, 42));
    await put('old.log', lines(0, 3));
    await put('old.log.1.gz', gzipSync(lines(0, 100)));
    const [app, old] = await reader().list(never);
    expect(app).to.include({ name: 'app.log', recordCount: 42, source: 'file' });
    expect(app?.note).to.match(/No systemd journal on this machine; read from the text file .*app\.log\./);
    expect(old?.note).to.include('estimated');
  });

  it('returns entries although an old part is damaged, and marks them as incomplete', async () => {
    await put('app.log', lines(5, 10));
    await put('app.log.1.gz', 'this is no gzip');
    const { rows, summary } = await ask(reader(), { name: 'app.log' });
    expect(rows).to.have.length(5);
    expect(summary).to.include({ scanned: 5, truncated: true });
    expect(summary.note).to.match(/^app\.log\.1\.gz was left out: /);
  });

  it('reads a large log in bounded memory, and stops at once when it is aborted', async function () {
    const file = path.join(root, 'large.log');
    const handle = await open(file, 'w');
    // Mostly a hole: 200 MB to read without 200 MB to write.
    await handle.write(lines(0, 100), 0);
    await handle.write(`\n${lines(100, 20_000)}`, 200 * 1024 ** 2);
    await handle.close();
    global.gc?.();
    const before = process.memoryUsage().rss;
    let highest = before;
    const watch = setInterval(() => (highest = Math.max(highest, process.memoryUsage().rss)), 20);
    const { rows, summary } = await ask(reader(), {
      name: 'large.log',
      text: 'message 9',
      endTime: stamp(50),
    });
    clearInterval(watch);
    expect(rows.map(({ message }) => message)).to.deep.equal(['message 9']);
    expect(summary.truncated).to.equal(false);
    expect((highest - before) / 1024 ** 2).to.be.below(100);

    const stop = new AbortController();
    const rest = ask(reader(), { name: 'large.log', text: 'no such text' }, stop.signal);
    setTimeout(() => stop.abort(), 30);
    const stopped = await rest;
    expect(stopped.summary.truncated).to.equal(true);
  });

  it('follows a log through rotation and truncation until it is stopped', async () => {
    await put('app.log', lines(0, 3));
    const stop = new AbortController();
    const seen: LogEntry[] = [];
    const following = (async () => {
      for await (const entry of reader().tail({ name: 'app.log', text: 'message' }, stop.signal)) {
        seen.push(entry);
      }
    })();
    const file = path.join(root, 'app.log');
    // Nothing says when the reader begins to follow, so entries are written until it has seen the last of them.
    let last = 100;
    for (; seen.length === 0; last++) {
      await appendFile(file, line(last));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await until(() => seen.at(-1)?.message === `message ${last - 1}`, 'that it follows');
    seen.length = 0;
    await appendFile(file, line(3) + line(4, 'other') + line(5));
    await until(() => seen.length === 2, 'two new entries');
    await rename(file, `${file}.1`);
    // More than what stands there after the truncation, so that it does not matter when the reader looks.
    await writeFile(file, line(6) + line(6, 'other'));
    await until(() => seen.length === 3, 'the entry after rotation');
    await writeFile(file, '');
    await appendFile(file, line(7));
    await until(() => seen.length === 4, 'the entry after truncation');
    stop.abort();
    await following;
    expect(seen.map(({ message }) => message)).to.deep.equal([3, 5, 6, 7].map((n) => `message ${n}`));
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(seen.at(-1)).to.deep.equal(rows[0]);
  });

  it('parses the names of rotated parts', () => {
    expect(parsePartName('syslog.2.gz')).to.deep.equal({ base: 'syslog', age: 2, packing: 'gz' });
    expect(parsePartName('app.log-20260101')).to.include({ base: 'app.log', packing: undefined });
    expect(parsePartName('app.log')).to.deep.equal({ base: 'app.log', age: 0, packing: undefined });
    expect(parsePartName('wtmp')).to.equal(undefined);
    expect(parsePartName('eipp.log.xz')).to.deep.equal({ base: 'eipp.log', age: 1, packing: 'xz' });
    expect(parsePartName('btmp.1')).to.equal(undefined);
    expect(parsePartName('mysql-bin.000001')).to.equal(undefined);
  });
});
