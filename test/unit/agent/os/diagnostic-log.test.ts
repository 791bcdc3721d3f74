import { appendFile, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  DiagnosticLog,
  logFile,
  type LogWriter,
  withoutSecrets,
} from '../../../../src/agent/os/diagnostic-log.ts';
import { LogReader } from '../../../../src/agent/cli/logs.ts';
import { newToken, TOKEN_PREFIX, type TokenKind } from '../../../../src/platform/secrets/tokens.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

describe('agent: its log on the machine', () => {
  let dataDir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ folder: dataDir, remove } = await temporaryFolder());
  });
  afterEach(async () => remove());

  const open = (writer: LogWriter = 'agent', maxBytes?: number) =>
    new DiagnosticLog({ dataDir, writer, version: '1.0.0', ...(maxBytes === undefined ? {} : { maxBytes }) });
  const messages = async (reader = new LogReader(dataDir)) =>
    (await reader.next()).map(({ message }) => message);

  it('is readable by its user only', async () => {
    open().write('info', 'agent', 'hello');
    expect((await stat(logFile(dataDir, 'agent'))).mode & 0o777).to.equal(0o600);
    expect((await stat(path.dirname(logFile(dataDir, 'agent')))).mode & 0o777).to.equal(0o700);
  });

  it('keeps the newest lines within its bounds, and gives the reader each line once over any rotations', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constant('read' as const)), {
          minLength: 1,
          maxLength: 40,
        }),
        async (steps) => {
          await rm(path.join(dataDir, 'logs'), { recursive: true, force: true });
          const [log, reader] = [open('agent', 1000), new LogReader(dataDir)];
          const [written, seen]: [string[], string[]] = [[], []];
          let sinceRead = 0;
          for (const step of [...steps, 'read' as const]) {
            if (step === 'read') {
              seen.push(...(await messages(reader)));
              // So little is never rotated out of all three files before it is read.
              expect(seen.at(-1)).to.equal(written.at(-1));
              if (sinceRead <= 1100) expect(seen).to.deep.equal(written);
              else seen.splice(0, seen.length, ...written);
              sinceRead = 0;
            } else {
              const message = `${written.length}${'x'.repeat(step)}`;
              log.write('info', 'agent', message);
              written.push(message);
              sinceRead += step + 150;
            }
          }
          const names = await readdir(path.join(dataDir, 'logs')).catch(() => []);
          expect(names.length).to.be.at.most(3);
          for (const name of names) {
            expect((await stat(path.join(dataDir, 'logs', name))).size).to.be.at.most(1000);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('is merged by time from the files of all programs', async () => {
    const at = (second: number, message: string) =>
      `${JSON.stringify({ timestamp: `2026-01-01T00:00:0${second}.000Z`, level: 'info', component: 'c', message, version: '1', pid: 1 })}\n`;
    await mkdir(path.join(dataDir, 'logs'));
    await writeFile(`${logFile(dataDir, 'agent')}.1`, at(1, 'a1') + at(3, 'a3'));
    await writeFile(logFile(dataDir, 'agent'), at(5, 'a5'));
    await writeFile(logFile(dataDir, 'watchdog'), at(2, 'w2') + at(4, 'w4'));
    expect(await messages()).to.deep.equal(['a1', 'w2', 'a3', 'w4', 'a5']);
  });

  it('goes on after a torn line, and a half line is read when it is whole', async () => {
    const reader = new LogReader(dataDir);
    open().write('info', 'agent', 'one');
    const line = await readFile(logFile(dataDir, 'agent'), 'utf8');
    await appendFile(logFile(dataDir, 'agent'), line.slice(0, 20));
    expect(await messages(reader)).to.deep.equal(['one']);
    await appendFile(logFile(dataDir, 'agent'), line.slice(20));
    expect(await messages(reader)).to.deep.equal(['one']);
    await appendFile(logFile(dataDir, 'agent'), line.slice(0, 20));
    open().write('info', 'agent', 'two');
    expect(await messages(reader)).to.deep.equal(['two']);
    await appendFile(logFile(dataDir, 'agent'), 'nonsense\n{"level":"info"}\n[]\n');
    open().write('info', 'agent', 'three');
    expect(await messages(reader)).to.deep.equal(['three']);
  });

  it('stops nothing if it cannot be written, and says later how much is missing', async () => {
    const log = open();
    // A file in the place of the folder: nothing can be written, whoever runs the test.
    await writeFile(path.join(dataDir, 'logs'), '');
    for (let i = 0; i < 5; i++) log.write('error', 'agent', 'lost');
    await rm(path.join(dataDir, 'logs'));
    log.write('info', 'agent', 'back');
    expect(await messages()).to.deep.equal([
      '5 lines are missing here, because they could not be written',
      'back',
    ]);
    await rm(dataDir, { recursive: true });
    log.write('info', 'agent', 'after the folder was removed');
    expect(await stat(dataDir).catch(() => undefined)).to.equal(undefined);
  });

  it('marks a line that it cuts', async () => {
    open().write('info', 'agent', `begin ${'x'.repeat(9000)}`);
    const [line = ''] = await messages();
    expect(line)
      .to.have.length(8000)
      .and.match(/^begin x+…$/);
  });

  it('writes through no link', async () => {
    const victim = path.join(dataDir, 'victim');
    await writeFile(victim, 'precious');
    await mkdir(path.join(dataDir, 'logs'));
    await symlink(victim, logFile(dataDir, 'agent'));
    open().write('info', 'agent', 'hello');
    expect(await readFile(victim, 'utf8')).to.equal('precious');
    expect(await messages()).to.deep.equal([]);
  });

  it('has no secrets, whatever it is given', () => {
    for (const kind of Object.keys(TOKEN_PREFIX) as TokenKind[]) {
      const token = newToken(kind);
      expect(withoutSecrets(`refused (${token}), "${token}"`)).to.equal(
        `refused (${TOKEN_PREFIX[kind]}…), "${TOKEN_PREFIX[kind]}…"`,
      );
    }
    expect(withoutSecrets('http://user:pass@proxy:3128/a and https://a.example.com:443/x')).to.equal(
      'http://user:…@proxy:3128/a and https://a.example.com:443/x',
    );
    expect(withoutSecrets('GET https://s3/x?X-Amz-Signature=abc123&part=2')).to.equal(
      'GET https://s3/x?X-Amz-Signature=…&part=2',
    );
    expect(withoutSecrets('Authorization: Bearer abcdefgh12345')).to.equal('Authorization: Bearer …');
    const plain = 'The agent (1.2.3) ended. It ended with exit code 1. must_not be changed';
    expect(withoutSecrets(plain)).to.equal(plain);
  });
});
