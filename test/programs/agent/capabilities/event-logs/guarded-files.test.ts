import { execFile } from 'node:child_process';
import {
  appendFile,
  chmod,
  chown,
  link,
  mkdir,
  rename,
  rm,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import {
  findTextLogs,
  type TextLog,
  unpack,
} from '../../../../../src/agent/capabilities/event-logs/text/log-files.ts';
import { describeTextLog } from '../../../../../src/agent/capabilities/event-logs/text/text-metadata.ts';
import {
  entriesBackward,
  readPart,
} from '../../../../../src/agent/capabilities/event-logs/text/text-part.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { followText } from '../../../../../src/agent/capabilities/event-logs/text/text-tail.ts';
import { temporarySpace } from '../../../../../src/agent/capabilities/event-logs/text/unpack-space.ts';
import type { LogEntry } from '../../../../../src/protocol/index.ts';
import { codeOf, never, temporaryFolder, until } from '../../../../support/agent/collect.ts';

const line = (text: string) => `2026-01-10T00:00:00.000Z host app: ${text}\n`;
const space = temporarySpace();
const isRoot = process.getuid?.() === 0;

/**
 * Whoever owns a folder below the log root may put anything in the place of a log at any moment. Each test changes the
 * files after the agent has looked for its logs and before it opens one.
 */
describe('agent: text logs that another user replaces', () => {
  let root: string;
  let outside: string;
  let remove: () => Promise<void>;
  let secret: string;

  beforeEach(async () => {
    const temporary = await temporaryFolder();
    remove = temporary.remove;
    root = path.join(temporary.folder, 'log');
    outside = path.join(temporary.folder, 'etc');
    secret = path.join(outside, 'app.log');
    await mkdir(path.join(root, 'app'), { recursive: true });
    await mkdir(outside);
    await writeFile(path.join(root, 'app/app.log'), line('ours'));
    await writeFile(secret, line('secret') + line('secret') + line('secret'));
  });
  afterEach(() => remove());

  const tools = () => ({ space, unpack });
  const own = () => path.join(root, 'app/app.log');
  const found = async (): Promise<TextLog> => {
    const {
      logs: [log],
    } = await findTextLogs(root);
    expect(log?.name).to.equal('app/app.log');
    return log!;
  };
  const swapForLink = async () => {
    await rm(own());
    await symlink(secret, own());
  };
  const swapFolderForLink = async () => {
    await rename(path.join(root, 'app'), path.join(root, 'kept'));
    await symlink(outside, path.join(root, 'app'));
  };
  const describeOf = (log: TextLog) =>
    describeTextLog(log, { budget: { bytes: 10_000_000 }, besideJournal: false }, never, tools());
  const messagesOf = async (log: TextLog) => {
    const part = await readPart(log, log.parts[0]!, never, tools());
    try {
      const entries: LogEntry[] = [];
      for await (const some of entriesBackward(part, never)) entries.push(...some);
      return entries.map(({ message }) => message);
    } finally {
      await part.open.close();
    }
  };

  for (const [what, swap] of [
    ['the file is swapped for a link', swapForLink],
    ['its folder is swapped for a link', swapFolderForLink],
  ] as const) {
    it(`reads nothing when ${what} to a file outside the log root`, async () => {
      const log = await found();
      await swap();
      expect(await codeOf(messagesOf(log))).not.to.equal('no error');
    });

    it(`counts nothing when ${what} to a file outside the log root`, async () => {
      const log = await found();
      // Large enough to be counted by lines, and compressed, whose length is read from the end.
      for (const part of log.parts) part.size = 2 * 1024 * 1024;
      await swap();
      expect(await codeOf(describeOf(log))).not.to.equal('no error');
      for (const part of log.parts) part.packing = 'gz';
      expect(await codeOf(describeOf(log))).not.to.equal('no error');
    });

    it(`follows nothing when ${what} to a file outside the log root before it begins`, async () => {
      const log = await found();
      await swap();
      const following = followText(log, AbortSignal.timeout(2000), 10);
      expect(await codeOf(following.next())).not.to.equal('no error');
    });
  }

  it('keeps following the opened log when its name is replaced, and then the next real log of that name', async () => {
    const stop = new AbortController();
    const seen: string[] = [];
    const polls = { count: 0 };
    const following = (async () => {
      for await (const entry of followText(await found(), stop.signal, 5)) seen.push(entry.message);
    })();
    await until(() => (polls.count += 1) > 5, 'the log is being followed');
    await appendFile(own(), line('first'));
    await until(() => seen.length === 1, 'the first entry');
    await rename(own(), `${own()}.1`);
    await symlink(secret, own());
    await appendFile(secret, line('secret'));
    await appendFile(`${own()}.1`, line('second'));
    await until(() => seen.length === 2, 'the entry in the file that was opened');
    await unlink(own());
    await writeFile(own(), line('third'));
    await until(() => seen.length === 3, 'the entry in the new file');
    stop.abort();
    await following;
    expect(seen).to.deep.equal(['first', 'second', 'third']);
  });

  it('reads nothing when a rotated, compressed part is replaced with a link', async () => {
    await writeFile(path.join(outside, 'secret.gz'), gzipSync(line('secret')));
    await writeFile(`${own()}.1.gz`, gzipSync(line('ours')));
    const log = await found();
    await rm(`${own()}.1.gz`);
    await symlink(path.join(outside, 'secret.gz'), `${own()}.1.gz`);
    expect(await codeOf(readPart(log, log.parts[1]!, never, tools()))).not.to.equal('no error');
  });

  it('neither waits for a pipe nor reads from it', async () => {
    const log = await found();
    await rm(own());
    await promisify(execFile)('mkfifo', [own()]);
    expect(await codeOf(messagesOf(log))).not.to.equal('no error');
    expect((await findTextLogs(root)).logs).to.deep.equal([]);
  });

  it('offers a link to another log below the root, and none that leads outside', async () => {
    await symlink(own(), path.join(root, 'inside.log'));
    await symlink(secret, path.join(root, 'outside.log'));
    const reader = textReader({ root });
    expect((await reader.list(never)).map(({ name }) => name)).to.deep.equal(['app/app.log', 'inside.log']);
    expect((await reader.get('inside.log', never)).recordCount).to.equal(1);
  });

  it('neither lists nor reads a file with a hard link that another user has created', async function () {
    if (!isRoot) this.skip();
    await chown(path.join(root, 'app'), 65_534, 65_534);
    const log = await found();
    await rm(own());
    await link(secret, own());
    expect(await codeOf(messagesOf(log))).not.to.equal('no error');
    expect((await findTextLogs(root)).logs).to.deep.equal([]);
    // Nor in a folder of the same owner in which everybody may make names.
    await chown(path.join(root, 'app'), 0, 0);
    await chmod(path.join(root, 'app'), 0o1777);
    expect(await codeOf(messagesOf(log))).not.to.equal('no error');
    // The owner of both may give a log two names.
    await chmod(path.join(root, 'app'), 0o755);
    expect(await messagesOf(log)).to.have.length(3);
  });
});
