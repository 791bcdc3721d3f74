import { execFileSync } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { combinedReader } from '../../../../../src/agent/capabilities/event-logs/open-event-logs.ts';
import { journaldReader } from '../../../../../src/agent/capabilities/event-logs/journald-reader.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { ask, codeOf, never, temporaryFolder } from '../../../../support/agent/collect.ts';

const line = (text: string) => `2026-01-10T00:00:00.000Z host app: ${text}\n`;

describe('agent: parts that only other programs unpack', () => {
  let folder: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  for (const [program, ending] of [
    ['xz', 'xz'],
    ['zstd', 'zst'],
    ['bzip2', 'bz2'],
    ['lz4', 'lz4'],
  ] as const) {
    it(`reads .${ending}, and says what of it is damaged`, async function () {
      try {
        execFileSync(program, ['--version'], { stdio: 'ignore' });
      } catch {
        this.skip();
      }
      const packed = execFileSync(program, ['-c'], { input: line('packed').repeat(2_000), stdio: 'pipe' });
      await writeFile(path.join(folder, 'app.log'), line('now'));
      await writeFile(path.join(folder, `app.log.1.${ending}`), packed);
      const reader = textReader({ root: folder });
      const whole = await ask(reader, { name: 'app.log', text: 'packed' });
      expect(whole.summary).to.include({ truncated: false });
      expect(whole.rows[0]?.message).to.equal('packed');
      expect((await reader.record('app.log', whole.rows[7]?.recordId ?? 0, never)).message).to.equal(
        'packed',
      );
      await writeFile(path.join(folder, `app.log.1.${ending}`), packed.subarray(0, 20));
      const { rows, summary } = await ask(reader, { name: 'app.log' });
      expect(rows.at(0)?.message).to.equal('now');
      expect(summary.truncated).to.equal(true);
      expect(summary.note).to.match(new RegExp(`^app\\.log\\.1\\.${ending} `));
    });
  }

  it('names them if no program is there', async () => {
    await writeFile(path.join(folder, 'app.log.1.xz'), 'packed');
    await writeFile(path.join(folder, 'app.log'), line('now'));
    const { PATH } = process.env;
    process.env['PATH'] = folder;
    try {
      const { summary } = await ask(textReader({ root: folder }), { name: 'app.log' });
      expect(summary).to.deep.equal({
        scanned: 1,
        truncated: true,
        note: 'app.log.1.xz was left out: this machine has no program that unpacks .xz files.',
      });
    } finally {
      process.env['PATH'] = PATH;
    }
  });

  it('offers text logs beside a journal', async () => {
    await mkdir(path.join(folder, 'nginx'));
    await writeFile(path.join(folder, 'nginx/error.log'), line('nginx'));
    const command = path.join(folder, 'journalctl');
    const record = JSON.stringify({
      __REALTIME_TIMESTAMP: '1795229242225483',
      __CURSOR: 'i=1',
      MESSAGE: 'journal',
    });
    await writeFile(
      command,
      `#!/bin/sh\ncase "$*" in *--field=*|*--list-boots*) exit;; esac\necho '${record}'\n`,
      {
        mode: 0o755,
      },
    );
    const both = combinedReader(
      journaldReader({ command }),
      textReader({ root: folder, besideJournal: true }),
    );
    const logs = await both.list(never);
    expect(logs.map(({ name }) => name)).to.include.members(['System', 'nginx/error.log']);
    expect(logs.find(({ name }) => name === 'nginx/error.log')?.note).to.match(/^Read from the text file /);
    for (const [name, message] of [
      ['System', 'journal'],
      ['Nginx/Error.log', 'nginx'],
    ] as const) {
      const { rows } = await ask(both, { name });
      expect(rows.map((row) => row.message)).to.deep.equal([message]);
      expect(await both.record(name, rows[0]?.recordId ?? 0, never)).to.deep.equal(rows[0]);
      expect((await both.get(name, never)).name.toLowerCase()).to.equal(name.toLowerCase());
    }
    expect(await codeOf(ask(both, { name: 'none' }))).to.equal('LOG_NOT_FOUND');
    // A journal that cannot be read hides nothing else.
    await rm(command);
    const left = await both.list(never);
    expect(left.map(({ name }) => name)).to.deep.equal(['nginx/error.log']);
    expect(left[0]?.note).to.match(
      /Other logs are missing, because they could not be read: .*could not be started/,
    );
  });
});
