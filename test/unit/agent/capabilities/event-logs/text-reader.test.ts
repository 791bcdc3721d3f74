import { appendFile, mkdir, open, rename, symlink, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { parsePartName, unpack } from '../../../../../src/agent/capabilities/event-logs/text/log-files.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { LogEntry, type LogLevel, type LogQuerySummary } from '../../../../../src/protocol/index.ts';
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

  it('says in an entry of very many lines that not all are shown', async () => {
    await put('app.log', line(0) + 'behind\n'.repeat(700) + line(1));
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(rows[1]?.message.match(/behind/g)).to.have.length(500);
    expect(rows[1]?.message).to.match(/\[more lines\]$/);
    expect(rows[1]?.raw).to.match(/\[more lines\]$/);
    expect(rows[0]?.message).to.equal('message 1');
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

  it('tells parts apart that begin with the same line', async () => {
    await put('app.log', `# started\n${lines(10, 20)}`);
    await put('app.log.1', `# started\n${lines(20, 30)}`);
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(new Set(rows.map(({ recordId }) => recordId)).size).to.equal(rows.length);
    for (const row of rows) expect(await reader().record('app.log', row.recordId, never)).to.deep.equal(row);
  });

  it('reads past entries with a wrong date, which hide none behind them', async () => {
    const filler = 'x'.repeat(500);
    const wrong = `1970-01-01T00:00:07.000Z host app: clock not set ${filler}\n`.repeat(300);
    const some = (from: number) =>
      Array.from({ length: 2_000 }, (_, n) => line(from + n, `message ${from + n} ${filler}`)).join('');
    await put('app.log', some(0) + wrong + some(2_000));
    for (const startTime of [stamp(1_900), stamp(0)]) {
      const { rows, summary } = await ask(reader(), {
        name: 'app.log',
        startTime,
        endTime: stamp(2_100),
        text: 'message 19',
      });
      expect(rows).to.have.length(startTime === stamp(0) ? 111 : 100);
      expect(summary.truncated).to.equal(false);
    }
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
    expect(rows[1]?.message.split('\n')).to.have.length(502);
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

  it('says how far back it has looked when its time is up, and goes on from there', async () => {
    const needle = (i: number) => line(i).trimEnd() + ' rare text\n';
    await put('app.log', needle(0) + lines(1, 60_000) + needle(60_000));
    const upTo = async (conditions: object, signal: AbortSignal = never) =>
      ask(reader(), { name: 'app.log', text: 'rare text', ...conditions }, signal);
    const whole = await upTo({});
    expect(whole.rows).to.have.length(2);
    expect(whole.summary).not.to.have.property('lookedBackTo');
    const timeUp = new AbortController();
    const answer = reader().query({ name: 'app.log', text: 'rare text', page: 1, limit: 9 }, timeUp.signal);
    expect((await answer.next()).value).to.deep.equal(whole.rows[0]);
    timeUp.abort();
    const { value } = await answer.next();
    const { truncated, lookedBackTo } = value as LogQuerySummary;
    expect(truncated).to.equal(true);
    expect(Date.parse(lookedBackTo ?? '')).to.be.at.most(Date.parse(whole.rows[0]?.timeCreated ?? ''));
    const rest = await upTo({ endTime: lookedBackTo });
    expect(rest.rows.at(-1)).to.deep.equal(whole.rows[1]);
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

  it('follows a file that is emptied and filled with more than before, and loses nothing of it', async () => {
    await put('app.log', lines(0, 3));
    const stop = new AbortController();
    const seen: string[] = [];
    const following = (async () => {
      for await (const entry of reader().tail({ name: 'app.log' }, stop.signal)) seen.push(entry.message);
    })();
    const file = path.join(root, 'app.log');
    for (let last = 100; seen.length === 0; last++) {
      await appendFile(file, line(last));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    seen.length = 0;
    await writeFile(file, lines(200, 400));
    await until(() => seen.includes('message 399'), 'the last entry');
    stop.abort();
    await following;
    expect(seen.slice(-200)).to.deep.equal(Array.from({ length: 200 }, (_, n) => `message ${200 + n}`));
  });

  it('follows a program that writes on behind the zeros if its file was emptied', async () => {
    await put('app.log', lines(0, 3));
    const stop = new AbortController();
    const seen: string[] = [];
    const following = (async () => {
      for await (const entry of reader().tail({ name: 'app.log' }, stop.signal)) seen.push(entry.message);
    })();
    const file = path.join(root, 'app.log');
    const handle = await open(file, 'r+');
    let at = (await handle.stat()).size;
    for (let last = 100; seen.length === 0; last++) {
      at += (await handle.write(line(last), at)).bytesWritten;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await handle.truncate(0);
    await handle.write(line(7), at);
    await handle.close();
    await until(() => seen.at(-1) === 'message 7', 'the entry behind the zeros');
    stop.abort();
    await following;
    const { rows } = await ask(reader(), { name: 'app.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(['message 7']);
    expect((await reader().record('app.log', rows[0]?.recordId ?? 0, never)).message).to.equal('message 7');
  });

  it('reads lines beside zeros, wherever they stand, and opens each of them', async () => {
    const zeros = (count: number) => '\0'.repeat(count);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(0, 0, 0, 1, 5, 4096, 65_536, 150_000), { minLength: 1, maxLength: 6 }),
        async (runs) => {
          await put(
            'zeros.log',
            runs.map((count, n) => zeros(count) + line(n)).join('') + zeros(runs[0] ?? 0),
          );
          const { rows } = await ask(reader(), { name: 'zeros.log' });
          expect(rows.map(({ message }) => message)).to.deep.equal(
            runs.map((_, n) => `message ${n}`).reverse(),
          );
          for (const row of rows) {
            expect(await reader().record('zeros.log', row.recordId, never)).to.deep.equal(row);
          }
        },
      ),
      { numRuns: 20 },
    );
  });

  it('passes over a hole of 300 MB', async () => {
    const handle = await open(path.join(root, 'hole.log'), 'w');
    await handle.write(line(1), 0);
    await handle.write(line(2), 300 * 1024 ** 2);
    await handle.close();
    const { rows, summary } = await ask(reader(), { name: 'hole.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(['message 2', 'message 1']);
    expect(summary).to.deep.equal({ scanned: 2, truncated: false, total: 2 });
  });

  it('reads UTF-16 of both orders, with a byte order mark and without, and older encodings', async () => {
    const text = lines(0, 600) + line(600, 'Grüße 😀 чай') + line(601, 'end').trimEnd();
    const little = Buffer.from(text, 'utf16le');
    const big = Buffer.from(little).swap16();
    await put('le.log', Buffer.concat([Buffer.from([0xff, 0xfe]), little]));
    await put('be.log', Buffer.concat([Buffer.from([0xfe, 0xff]), big]));
    await put('plain.log', little);
    await put('odd.log', Buffer.concat([little, Buffer.from([10])]));
    for (const name of ['le.log', 'be.log', 'plain.log', 'odd.log']) {
      const rows = await askAllPages(reader(), { name, limit: 500 });
      expect(rows.length, name).to.equal(602);
      expect(rows.slice(0, 3).map(({ message }) => message)).to.deep.equal([
        'end',
        'Grüße 😀 чай',
        'message 599',
      ]);
      for (const row of [rows[0]!, rows[1]!, rows[601]!]) {
        expect(await reader().record(name, row.recordId, never)).to.deep.equal(row);
      }
      expect((await ask(reader(), { name, text: 'ЧАЙ' })).rows).to.have.length(1);
    }
    await put('latin.log', Buffer.from(line(1, 'Größe 20 °C'), 'latin1'));
    await put('euro.log', Buffer.concat([Buffer.from(line(1, '5 ').trimEnd()), Buffer.from([0x20, 0x80])]));
    await put('mark.log', `\uFEFF${line(1)}`);
    const messageOf = async (name: string) => (await ask(reader(), { name })).rows[0]?.message;
    expect(await messageOf('latin.log')).to.equal('Größe 20 °C');
    expect(await messageOf('euro.log')).to.equal('5 €');
    expect(await messageOf('mark.log')).to.equal('message 1');
  });

  it('finds what stands in the other fields of an entry, and not what stands in its header', async () => {
    const json = (user: string) =>
      `${JSON.stringify({ time: stamp(1), level: 'info', msg: 'sign-in', user })}\n`;
    await put('app.log', json('anna') + json('ben') + line(2, 'plain'));
    expect((await ask(reader(), { name: 'app.log', text: 'ANNA' })).rows).to.have.length(1);
    expect((await ask(reader(), { name: 'app.log', text: 'host app' })).rows).to.have.length(0);
  });

  it('names the parts that this machine cannot unpack', async () => {
    await put('app.log', line(9));
    await put('app.log.1', line(8));
    await put('app.log.2.xz', 'xz');
    await put('app.log.3.zst', 'zstd');
    await put('app.log.4.gz', gzipSync(line(5)));
    const without = textReader({
      root,
      unpack: async (packing, ...rest) => (packing === 'gz' ? unpack(packing, ...rest) : undefined),
    });
    const { rows, summary } = await ask(without, { name: 'app.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(['message 9', 'message 8', 'message 5']);
    expect(summary.truncated).to.equal(true);
    expect(summary.total).to.equal(undefined);
    expect(summary.note).to.match(/app\.log\.2\.xz was left out: .*app\.log\.3\.zst was left out: /);
    expect((await without.get('app.log', never)).note).to.include('leaves out 2 compressed parts');
    // A page that is full before them has everything that was asked for.
    expect((await ask(without, { name: 'app.log', limit: 2 })).summary).to.deep.equal({
      scanned: 2,
      truncated: false,
    });
  });

  it('estimates the entries of a compressed part by its content, and reads one that was cut off', async () => {
    const packed = gzipSync(lines(0, 20_000));
    await put('app.log', line(30_000));
    await put('app.log.1.gz', packed.subarray(0, packed.length / 2));
    const { recordCount } = await reader().get('app.log', never);
    expect(recordCount).to.be.within(5_000, 15_000);
    const { summary } = await ask(reader(), { name: 'app.log', limit: 500, text: 'no such text' });
    expect(summary.note).to.equal('app.log.1.gz could not be unpacked completely.');
  });

  it('offers the logs of many programs, with parts of many rotations', async () => {
    for (const name of [
      'a.out',
      'b.err',
      'c.txt',
      'httpd/error_log',
      'httpd/access_log',
      'samba/log.smbd',
      'mail.warn',
      'pods/p/c/0.log',
    ]) {
      await put(name, line(1));
    }
    for (const [at, end] of ['', '.1', '-20260101', '.2025-12-31.gz', '-2025-12-30.xz', '.old'].entries()) {
      await put(`app.log${end}`, end.endsWith('.gz') ? gzipSync(line(at)) : line(at));
    }
    for (const name of ['wtmp', 'data.db', 'mysql-bin.000001', 'a.log.lck']) await put(name, line(1));
    const names = (await reader().list(never)).map(({ name }) => name);
    expect(names).to.deep.equal([
      'a.out',
      'app.log',
      'b.err',
      'c.txt',
      'httpd/access_log',
      'httpd/error_log',
      'mail.warn',
      'pods/p/c/0.log',
      'samba/log.smbd',
    ]);
  });

  it('says what share of a large log it has read when time is up', async () => {
    await put('app.log', lines(0, 40_000));
    await put('app.log.1', line(0));
    const stop = new AbortController();
    const answer = reader().query(
      { name: 'app.log', page: 1, limit: 500, level: ['information'] },
      stop.signal,
    );
    await answer.next();
    stop.abort();
    let step = await answer.next();
    while (step.done !== true) step = await answer.next();
    expect(step.value.truncated).to.equal(true);
    expect(step.value.note).to.match(
      /^Time was up after \d+ % of app\.log \(0\.\d MB\) had been read\. Time was up before app\.log\.1 and what is older/,
    );
  });

  it('finds the same by bytes and by times as by reading everything', async function () {
    const words = ['plain', 'ÄRGER', 'Kelvin \u212a', 'İstanbul', '\x1b[31mre\x1b[0md', 'needle'];
    // Entries of several lines, some out of order, over several blocks.
    const filler = 'x'.repeat(400);
    const all = Array.from({ length: 6_000 }, (_, n) => {
      const at = n % 500 === 7 ? n - 2_000 : n;
      const word = n % 700 < words.length ? words[n % 700] : '';
      const more = n % 900 === 1 ? `${`  at ${filler}\n`.repeat(80)}  Needle ${n}\n` : '';
      return new Date(BEGIN + at * 20_000).toISOString() + ` host app: ${n} ${word} ${filler}\n${more}`;
    });
    await put('app.log', all.join(''));
    const whole = await askAllPages(reader(), { name: 'app.log', limit: 500 });
    expect(whole).to.have.length(6_000);
    const time = fc.option(fc.integer({ min: -100, max: 6_100 }), { nil: undefined });
    await fc.assert(
      fc.asyncProperty(
        fc.option(
          fc.constantFrom('needle', 'NEEDLE 1801', 'ärger', 'k', 'kel', 'ist', 'red', '599', 'no such', 'ä'),
          { nil: undefined },
        ),
        time,
        time,
        async (text, from, to) => {
          const startTime = from === undefined ? undefined : new Date(BEGIN + from * 20_000).toISOString();
          const endTime = to === undefined ? undefined : new Date(BEGIN + to * 20_000).toISOString();
          const rows = (
            await ask(reader(), {
              name: 'app.log',
              limit: 500,
              ...(text && { text }),
              ...(startTime && { startTime }),
              ...(endTime && { endTime }),
            })
          ).rows;
          // An entry that is dated hours earlier than those around it is found only among them.
          const expected = whole.filter(
            (entry) =>
              (text === undefined || entry.message.toLowerCase().includes(text.toLowerCase())) &&
              (startTime === undefined || entry.timeCreated >= startTime) &&
              (endTime === undefined || entry.timeCreated <= endTime),
          );
          const inOrder = (entries: LogEntry[]) =>
            entries
              .filter(({ message }) => Number(message.split(' ')[0]) % 500 !== 7)
              .map(({ recordId }) => recordId);
          expect(inOrder(rows).slice(0, 300)).to.deep.equal(inOrder(expected).slice(0, 300));
        },
      ),
      { numRuns: 15, seed: 11 },
    );
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
