import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  answerIn,
  failureIn,
  sqlcmd,
  backupSql,
  dropRestoringSql,
  freeNameSql,
  historySql,
  restoreSql,
  setOfFileSql,
  textValue,
  type RunSql,
} from '../../../../../src/agent/sql-server.ts';
import { sqlServerHandlers, sqlServerQueries } from '../../../../../src/agent/capabilities/sql-server.ts';
import { boundHandler } from '../../../../../src/agent/work/handler.ts';
import { COMMANDS, SqlBackupSet, SqlPath } from '../../../../../src/protocol/index.ts';
import { fakePrograms, type FakePrograms } from '../../support/fake-programs.ts';

/** Names that try to become SQL, or a command of sqlcmd. */
const HOSTILE = [
  "a'; DROP DATABASE master; --",
  'a]; DROP DATABASE master; --',
  '$(USERPROFILE)',
  'a\nGO\nDROP DATABASE master\nGO',
  'a\r\n:!! calc.exe',
  ':r \\\\evil\\share\\x.sql',
  '"; EXIT',
  '/* ',
  '--',
  '\u0000',
  '名前 😀',
  ']]]]',
  "''''",
  'x'.repeat(128),
];

const SET = {
  id: 7,
  uuid: '7C6D5E4F-3A2B-4C1D-8E9F-0A1B2C3D4E5F',
  backupType: 'full',
  firstLsn: '1234567890123456789012345',
  lastLsn: '1234567890123456789012346',
  isCopyOnly: false,
  isDamaged: false,
  fork: '0C6D5E4F-3A2B-4C1D-8E9F-0A1B2C3D4E5F',
  differentialBase: null,
  finishedAt: '2026-11-22T02:22:52',
  sizeBytes: 1000,
  file: String.raw`D:\Backups\muster-1.bak`,
};

describe('agent: SQL Server', function () {
  this.timeout(60_000);

  /** What a script has beside its own words: the names that came from outside, whatever they hold. */
  const without = (sql: string) => sql.replaceAll(/0x[0-9A-F]*/g, '0x');

  it('writes the same scripts whatever databases and files are called', () => {
    const options = { backupType: 'full', copyOnly: false, noRecovery: true, filePrefix: 'm_1' } as const;
    const scripts = (database: string, file: string) => [
      backupSql({ ...options, database, file }),
      restoreSql({ ...options, database, file }),
      restoreSql({ ...options, database, file, backupType: 'log', stopAt: '2026-11-22T02:22:52.664' }),
      historySql(database, 10),
      setOfFileSql(database, file),
      freeNameSql(database),
      dropRestoringSql(database),
    ];
    const expected = scripts('db', 'file').map(without);
    for (const name of HOSTILE) expect(scripts(name, name).map(without), name).to.deep.equal(expected);
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 128 }),
        fc.string({ unit: 'binary' }),
        (database, file) => {
          expect(scripts(database, file).map(without)).to.deep.equal(expected);
        },
      ),
    );
    // No line of a script is one that sqlcmd takes for itself.
    for (const line of expected.join('\n').split('\n')) expect(line).not.to.match(/^\s*(GO\b|:|!!)|\$\(/i);
  });

  it('gives SQL Server exactly the bytes of the name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        const [, digits = ''] = /0x([0-9A-F]*)/.exec(textValue(name)) ?? [];
        expect(Buffer.from(digits, 'hex').toString('utf16le')).to.equal(
          Buffer.from(name, 'utf16le').toString('utf16le'),
        );
      }),
    );
  });

  it('writes no prefix and no instant that is not one', () => {
    const wanted = { database: 'a', file: 'b', backupType: 'log', noRecovery: false } as const;
    expect(() => restoreSql({ ...wanted, filePrefix: "x'" })).to.throw();
    expect(() => restoreSql({ ...wanted, filePrefix: 'x', stopAt: "2026-11-22'; DROP" })).to.throw();
  });

  it('takes paths of Windows only, which lead nowhere else', () => {
    for (const right of [String.raw`D:\Backups`, String.raw`\\nas\share\sql`, 'E:/x y']) {
      expect(SqlPath.safeParse(right).success, right).to.equal(true);
    }
    for (const wrong of [
      'D:',
      'D:\\',
      'Backups',
      String.raw`D:\a\..\b`,
      String.raw`D:\a|b`,
      'D:\\a\nb',
      '\\\\nas',
      String.raw`D:\a:b`,
    ]) {
      expect(SqlPath.safeParse(wrong).success, wrong).to.equal(false);
    }
  });

  it('knows a failure by its number, in every language', () => {
    const codeOf = (output: string) => failureIn(output).code;
    expect(
      codeOf(
        'Msg 4208, Level 16, State 1, Server SQL1, Line 4\r\nThe statement BACKUP LOG is not allowed while the recovery model is SIMPLE.\r\nMsg 3013, Level 16, State 1, Server SQL1, Line 4\r\nBACKUP LOG is terminating abnormally.',
      ),
    ).to.equal('RECOVERY_MODEL');
    expect(
      codeOf(
        'Meldung 3201, Ebene 16, Status 1, Server SQL1, Zeile 5\nDas Sicherungsmedium kann nicht geöffnet werden.',
      ),
    ).to.equal('PATH_UNUSABLE');
    expect(codeOf('Msg 4214, Level 16, State 1, Server S, Line 1\nBACKUP LOG cannot be performed.')).to.equal(
      'CHAIN_BROKEN',
    );
    expect(
      codeOf('Msg 50000, Level 16, State 1, Server S, Line 2\nMUSTER-REFUSAL:DATABASE_EXISTS:It is there.'),
    ).to.equal('DATABASE_EXISTS');
    expect(
      codeOf('Sqlcmd: Error: Microsoft ODBC Driver 17 for SQL Server : Login timeout expired.'),
    ).to.equal('SQL_UNREACHABLE');
    expect(codeOf('MUSTER-REFUSAL:rm -rf:/')).to.equal('SQL_FAILED');
    expect(codeOf('x'.repeat(1_000_000))).to.equal('SQL_FAILED');
  });

  it('reads an answer that is printed in pieces, and no other', () => {
    const printed = `Processed 8 pages.\r\nMUSTER-ANSWER:${JSON.stringify(SET).replace(',', ',\r\n')}\r\n\r\n`;
    expect(answerIn(printed, SqlBackupSet)).to.deep.equal(SET);
    for (const wrong of [
      '',
      'MUSTER-ANSWER:',
      'MUSTER-ANSWER:{',
      `MUSTER-ANSWER:${JSON.stringify({ ...SET, lastLsn: 1e25 })}`,
    ]) {
      expect(() => answerIn(wrong, SqlBackupSet), wrong).to.throw();
    }
  });

  describe('asked of the programs', () => {
    let programs: FakePrograms;
    const { signal } = new AbortController();
    beforeEach(async () => {
      programs = await fakePrograms();
    });
    afterEach(async () => programs.remove());

    async function parts(body: string, registry = '') {
      const folder = path.join(programs.folder, 'agent');
      await mkdir(folder, { mode: 0o700 });
      const program = await programs.add(
        'sqlcmd',
        `const sql = fs.readFileSync(call.args[call.args.indexOf('-i') + 1], 'utf8');
const answer = (value) => print('MUSTER-ANSWER:' + JSON.stringify(value) + '\\r\\n');
${body}`,
      );
      return {
        run: sqlcmd({ find: () => Promise.resolve(program), folder }),
        registry: await programs.add('reg', registry),
      };
    }
    const perform = async (
      body: string,
      type: 'backup.mssql-backup' | 'backup.mssql-restore',
      payload: object,
    ) => {
      const handlers = sqlServerHandlers(await parts(body));
      const whole = { instance: 'MSSQLSERVER', timeoutSeconds: 60, ...payload };
      const output = await boundHandler<object>(handlers, { type, payload: whole })({
        signal,
        progress: () => {},
      });
      return COMMANDS[type].output.parse(output);
    };
    const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
      work.then(
        () => 'nothing',
        (error: unknown) => (error as { code?: string }).code,
      );
    const backup = {
      database: HOSTILE[0],
      backupType: 'full',
      copyOnly: false,
      outputPath: String.raw`D:\Backups\\`,
    };

    it('makes a backup into a new file, and says what SQL Server has noted of it', async () => {
      const done = await perform(`answer(${JSON.stringify(SET)});`, 'backup.mssql-backup', backup);
      expect(done).to.deep.include({ set: SET });
      const [call] = await programs.calls('sqlcmd');
      const args = call?.args ?? [];
      for (const option of ['-x', '-X', '-b', '-E']) expect(args).to.include(option);
      expect(args.slice(0, 2)).to.deep.equal(['-S', '.']);
      expect(args[args.indexOf('-y') + 1]).to.equal('0');
      expect(args.join(' ')).not.to.include('DROP');
      expect('file' in done && done.file).to.match(
        /^D:\\Backups\\muster-\d{8}T\d{6}Z-full-[0-9a-f]{8}\.bak$/,
      );
    });

    it('removes its scripts, and says by a code why SQL Server refuses', async () => {
      const refused = `print('Msg 4208, Level 16, State 1, Server S, Line 4\\r\\nNot with SIMPLE.\\r\\n'); return 1;`;
      const log = { ...backup, backupType: 'log' };
      expect(await codeOf(perform(refused, 'backup.mssql-backup', log))).to.equal('RECOVERY_MODEL');
      const [call] = await programs.calls('sqlcmd');
      const script = call?.args[call.args.indexOf('-i') + 1] ?? '';

      expect([script.endsWith('.sql'), existsSync(script)]).to.deep.equal([true, false]);
    });

    it('believes nothing but an answer, and takes in no flood', async () => {
      for (const body of [
        '',
        `print('all good');`,
        `for (let at = 0; at < 8; at += 1) print('x'.repeat(1_000_000));`,
      ]) {
        expect(await codeOf(perform(body, 'backup.mssql-backup', backup)), body).to.equal('SQL_FAILED');
        await programs.remove();
        programs = await fakePrograms();
      }
    });

    it('restores into a database whose files have names of their own', async () => {
      const restored = await perform(`answer({ state: 'RESTORING' });`, 'backup.mssql-restore', {
        restoreId: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93',
        backupFile: String.raw`D:\Backups\a.bak`,
        backupType: 'full',
        targetDatabase: 'a]b',
        noRecovery: true,
      });
      expect(restored).to.include({ database: 'a]b', state: 'RESTORING' });
    });

    it('lists the first 64 instances of more, with their number', async () => {
      const lines = Array.from({ length: 66 }, (_, at) => `    I${at}    REG_SZ    MSSQL15.I${at}`);
      const registry = await programs.add('reg', `print(${JSON.stringify(lines.join('\r\n'))});`);
      const asked: string[] = [];
      const run: RunSql = ({ instance, answer }) => {
        asked.push(instance);
        return Promise.resolve(answer.parse({}));
      };
      const handler = sqlServerQueries({ run, registry })['backup.databases'];
      const found = await handler?.({}, { signal, timeUp: signal, row: async () => {} });
      expect([found?.instances.length, found?.instanceCount, asked.length]).to.deep.equal([64, 66, 64]);
      expect(COMMANDS['backup.databases'].output.parse(found)).to.deep.equal(found);
    });

    it('lists the instances of the registry, also one that does not answer', async () => {
      const registry = `print('\\r\\nHKEY_LOCAL_MACHINE\\\\SOFTWARE\\\\X\\r\\n    MSSQLSERVER    REG_SZ    MSSQL15.MSSQLSERVER\\r\\n    SQLEXPRESS    REG_SZ    MSSQL15.SQLEXPRESS\\r\\n    -S evil    REG_SZ    x\\r\\n');`;
      const answers = `if (call.args[1] === '.') answer({ version: '15.0.2000.5', edition: 'Standard', dataFolder: 'D:\\\\Data', databases: ${JSON.stringify(
        HOSTILE.map((name) => ({ name, sizeBytes: 8192 })),
      )} });
else { print('Sqlcmd: Error: Microsoft ODBC Driver 17 for SQL Server : Login timeout expired.'); return 1; }`;
      const queries = sqlServerQueries(await parts(answers, registry));
      const context = { signal, timeUp: signal, row: async () => {} };
      const found = COMMANDS['backup.databases'].output.parse(
        await queries['backup.databases']?.({}, context),
      );
      expect(found.instances.map(({ instance }) => instance)).to.deep.equal(['MSSQLSERVER', 'SQLEXPRESS']);
      expect(found.instances[0]).to.include({ version: '15.0.2000.5 Standard' });
      expect(found.instances[0]?.databases).to.have.length(HOSTILE.length);
      expect(found.instances[1]?.problems[0]?.code).to.equal('SQL_UNREACHABLE');
      const servers = new Set((await programs.calls('sqlcmd')).map(({ args }) => args[1]));
      expect(servers).to.deep.equal(new Set(['.', String.raw`.\SQLEXPRESS`]));
    });

    it('lists nothing if there is no SQL Server', async () => {
      const queries = sqlServerQueries(await parts('', 'return 1;'));
      const context = { signal, timeUp: signal, row: async () => {} };
      expect(await queries['backup.databases']?.({}, context)).to.deep.equal({ instances: [] });
    });
  });
});
