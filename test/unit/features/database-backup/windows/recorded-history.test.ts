import { expect } from 'chai';
import { z } from 'zod';
import { AgentError } from '../../../../../src/agent/core/agent-error.ts';
import { answerIn, failureIn, MARK } from '../../../../../src/agent/sql-server.ts';
import { chainsOf } from '../../../../../src/features/database-backup/sql-server.service.ts';
import { SqlBackupSet, SqlErrorCode } from '../../../../../src/protocol/index.ts';
import { describeRecorded } from '../../../../support/recorded.ts';

/**
 * Histories of backups as dbatools has read them from servers, and what clients of databases print. They have no ids that
 * grow and mostly no GUID of a base; the order of time and the LSN of the base stand in for these.
 */

/** How many logs join each full backup, the newest first, and the differential ones of the newest. */
const CHAINS: Readonly<Record<string, { logs: number[]; differentials: number }>> = {
  'dbatools-AgDiffRestore.json': { logs: [8], differentials: 1 },
  'dbatools-CleanFormatDbaInformation.xml': { logs: [6], differentials: 0 },
  'dbatools-ContinuePointTest.xml': { logs: [5], differentials: 1 },
  // A week with a log each five minutes.
  'dbatools-DiffIssues.json': { logs: [767], differentials: 2 },
  'dbatools-DiffRestore.json': { logs: [8], differentials: 1 },
  // Most of its logs are empty: they end where they begin.
  'dbatools-EmptyTLogData.json': { logs: [1, 2], differentials: 0 },
  'dbatools-RestoreCommaIssues.json': { logs: [8], differentials: 1 },
  'dbatools-RestoreTimeClean.xml': { logs: [6], differentials: 0 },
  // A log begins before the end of the full backup and ends after it.
  'dbatools-TLogBWFirstLastLsn.json': { logs: [2], differentials: 0 },
  'dbatools-broken_chain.json': { logs: [2], differentials: 0 },
  'dbatools-chkptLSN-ne-firstLSN.json': { logs: [767], differentials: 2 },
};

describeRecorded('sql-server', 'a recorded history of SQL Server', ({ files, bytes }) => {
  const histories = files.filter((file) => file.startsWith('dbatools-'));
  const setsIn = (file: string) => setsOf(file.endsWith('.xml') ? fromXml(text(file)) : fromJson(text(file)));
  const text = (file: string) => {
    const content = bytes(file);
    return new TextDecoder(content[0] === 0xff ? 'utf-16le' : 'utf-8').decode(content);
  };

  it('is read from what sqlcmd prints, without losing a digit', () => {
    expect(histories).to.deep.equal(Object.keys(CHAINS).sort());
    let beyond = 0;
    for (const file of histories) {
      const sets = setsIn(file);
      const read = answerIn(printed(sets), z.array(SqlBackupSet));
      expect(read, file).to.deep.equal(sets);
      beyond += sets.filter(({ lastLsn }) => String(Number(lastLsn)) !== lastLsn).length;
    }
    // A number of JavaScript would not hold these.
    expect(beyond).to.be.greaterThan(1000);
  });

  it('has the chains that its LSNs say', () => {
    for (const file of histories) {
      const { chains, warnings } = chainsOf(setsIn(file));
      const [newest] = chains;
      const found = {
        logs: chains.map(({ logs }) => logs.length),
        differentials: newest?.differentials.length,
      };
      expect(found, file).to.deep.equal(CHAINS[file]);
      expect(
        warnings.map(({ code }) => code),
        file,
      ).to.deep.equal([]);
    }
  });

  it('is broken by a log that is missing, unless another backup has what was in it', () => {
    let broken = 0;
    let bridged = 0;
    for (const file of histories) {
      const sets = setsIn(file);
      // Of the long ones, some logs of each day.
      const step = Math.ceil(sets.length / 20);
      const missing = sets.filter(({ backupType }) => backupType === 'log');
      for (const log of missing.filter((_log, index) => index % step === 0)) {
        const rest = sets.filter((set) => set !== log);
        const { chains, warnings } = chainsOf(rest);
        const hasGap = chains.map((chain) => chain.hasGap);
        expect(hasGap, `${file} without ${log.uuid}`).to.deep.equal(
          chains.map(({ full }) => isBroken(full, rest)),
        );
        expect(warnings.some(({ code }) => code === 'LOG_GAP')).to.equal(hasGap[0]);
        if (hasGap[0] === true) broken += 1;
        else bridged += 1;
      }
    }
    expect(broken).to.be.greaterThan(20);
    expect(bridged).to.be.greaterThan(20);
  });

  it('is no output of another kind, whatever it is encoded in', () => {
    const outputs = files.filter((file) => file.endsWith('.txt') || file.endsWith('.jsonl'));
    expect(outputs).to.have.length(11);
    for (const file of outputs) {
      // As the agent decodes it: a program that prints UTF-16 was not asked to.
      const output = bytes(file).toString();
      expect(() => answerIn(output, z.unknown()), file).to.throw(AgentError, 'has printed no answer');
      const failure = failureIn(output);
      expect(Object.values(SqlErrorCode)).to.include(failure.code);
      expect(failure.message.length).to.be.within(1, 520);
      expect(failure.message).not.to.match(/\p{Cc}/u);
    }
    expect(failureIn(text('go-sqlcmd-utf8out.txt')).message).to.include('挨挨唉哀皑癌蔼矮');
  });
});

interface Row {
  type: string;
  firstLsn: string;
  lastLsn: string;
  /** Where the full backup began that a differential one is based on; its own for a full one. */
  checkpointLsn: string;
  baseLsn: string;
  uuid: string;
  at: number;
}

const Text = z.string().catch('');
const Recorded = z.object({
  type: z.string(),
  firstlsn: z.string(),
  lastlsn: z.string(),
  checkpointlsn: z.string(),
  databasebackuplsn: z.string(),
  differentialbaselsn: Text,
  backupsetguid: z.string(),
  backupfinishdate: z.string(),
});

/** LSNs are written as numbers, which are quoted before JavaScript rounds them. The case of names differs. */
function fromJson(text: string): Row[] {
  const quoted = text.replace(/^\uFEFF/, '').replaceAll(/("\w*LSN":\s*)(\d+)/gi, '$1"$2"');
  const rows = z.array(z.looseObject({})).parse(JSON.parse(quoted));
  return rows.map((row) => {
    const small = Object.fromEntries(Object.entries(row).map(([name, value]) => [name.toLowerCase(), value]));
    const set = Recorded.parse(small);
    return {
      type: set.type,
      firstLsn: set.firstlsn,
      lastLsn: set.lastlsn,
      checkpointLsn: set.checkpointlsn,
      baseLsn: set.differentialbaselsn || set.databasebackuplsn,
      uuid: set.backupsetguid,
      at: Number(/\d+/.exec(set.backupfinishdate)?.[0]),
    };
  });
}

/** Objects that PowerShell has written. A number of any size is its text within an object. */
function fromXml(xml: string): Row[] {
  const objects = xml.split(/(?=<Obj RefId="\d+">\s*<TN(?:Ref)? RefId="0")/).slice(1);
  return objects.map((object) => {
    const lsn = (name: string) =>
      new RegExp(`N="${name}"[\\s\\S]*?<ToString>(\\d+)<`).exec(object)?.[1] ?? '';
    const value = (name: string, tag: string) =>
      new RegExp(`<${tag} N="${name}">([^<]{2,})<`).exec(object)?.[1] ?? '';
    return {
      type: value('Type', 'S'),
      firstLsn: lsn('FirstLsn'),
      lastLsn: lsn('LastLsn'),
      checkpointLsn: lsn('CheckpointLsn'),
      baseLsn: lsn('DatabaseBackupLsn'),
      uuid: value('BackupSetId', '\\w+'),
      at: Date.parse(value('End', 'DT')),
    };
  });
}

function setsOf(rows: readonly Row[]): SqlBackupSet[] {
  const inOrder = [...rows].sort((a, b) => a.at - b.at);
  return inOrder.map(({ type, firstLsn, lastLsn, baseLsn, uuid, at }, id) => {
    const base = rows.find((row) => row.type === 'Database' && row.checkpointLsn === baseLsn);
    const isDifferential = type === 'Database Differential';
    return SqlBackupSet.parse({
      id,
      uuid,
      backupType: isDifferential ? 'differential' : type === 'Database' ? 'full' : 'log',
      firstLsn,
      lastLsn,
      isCopyOnly: false,
      isDamaged: false,
      fork: null,
      differentialBase: isDifferential ? (base?.uuid ?? null) : null,
      finishedAt: new Date(at).toISOString().slice(0, 19),
      sizeBytes: null,
      file: `D:\\Backups\\muster-${id}.bak`,
    });
  });
}

/** In pieces, as sqlcmd prints long values. */
const printed = (sets: readonly SqlBackupSet[]): string =>
  (MARK + JSON.stringify(sets)).match(/[\s\S]{1,2033}/g)?.join('\r\n') ?? '';

/** Whether something of a full backup's logs cannot be reached: tries every log after every backup that is reached. */
function isBroken(full: SqlBackupSet, sets: readonly SqlBackupSet[]): boolean {
  const logs = sets
    .filter(({ backupType }) => backupType === 'log')
    .map(({ firstLsn, lastLsn }) => ({ first: BigInt(firstLsn), last: BigInt(lastLsn) }));
  const based = sets.filter(({ differentialBase }) => differentialBase === full.uuid);
  const reached = new Set([full, ...based].map(({ lastLsn }) => BigInt(lastLsn)));
  // What is added while the loop runs is visited as well.
  for (const end of reached) {
    for (const { first, last } of logs) if (first <= end && end < last) reached.add(last);
  }
  const furthest = [...reached].reduce((one, other) => (one > other ? one : other));
  return logs.some(({ last }) => last > furthest);
}
