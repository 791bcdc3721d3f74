import type { Fault } from '../../features/audit/chain/chain-check.ts';
import { fingerprintOf, type PublicKey } from '../../features/audit/chain/checkpoint.ts';
import type { CommandIo } from '../io.ts';

/** The result of a verification. */
export interface Report {
  chains: number;
  entries: number;
  checkpoints: number;
  faults: readonly Fault[];
  keys: readonly PublicKey[];
  /** Keys in the database that are not trusted. */
  foreignKeys: readonly string[];
  /** The bundle holds pruned entries, up to the one that `head` names. */
  isArchive?: boolean;
  head?: { seq: number } | undefined;
  /** The keys came with the bundle, so a person must compare their fingerprints. */
  keysFromBundle?: boolean;
}

export const isIntact = ({ faults, foreignKeys }: Pick<Report, 'faults' | 'foreignKeys'>) =>
  faults.length === 0 && foreignKeys.length === 0;

/** Prints the report and returns the exit code. */
export function printReport(
  { stdout }: CommandIo,
  report: Report,
  milliseconds: number,
  asJson: boolean,
): number {
  const keys = report.keys.map(({ keyId, publicKey }) => ({ keyId, fingerprint: fingerprintOf(publicKey) }));
  if (asJson) {
    stdout.write(`${JSON.stringify({ ok: isIntact(report), ...report, keys, milliseconds })}\n`);
    return isIntact(report) ? 0 : 1;
  }
  const rate = Math.round(report.entries / Math.max(milliseconds / 1000, 0.001));
  const lines = [
    ...report.faults.map(faultLine),
    ...report.foreignKeys.map((id) => `BAD  the signing key ${id} was not created by this installation`),
    ...keys.map(({ keyId, fingerprint }) => `key ${keyId}, fingerprint ${fingerprint}`),
    ...(report.isArchive === true
      ? [`This is an archive of entries removed from the chain, up to entry ${report.head?.seq}.`]
      : []),
    ...(report.keysFromBundle === true
      ? ['These keys came with the bundle. Compare them with GET /api/v1/audit-keys, or pass --keys.']
      : []),
    `${isIntact(report) ? 'OK ' : 'NOT INTACT'} ${report.entries} entries, ${report.checkpoints} checkpoints in ${report.chains} chains; ${(milliseconds / 1000).toFixed(1)} s, ${rate} entries/s`,
  ];
  stdout.write(`${lines.join('\n')}\n`);
  return isIntact(report) ? 0 : 1;
}

function faultLine({ chainId, seq, id, reason }: Fault): string {
  const where = seq === null ? '' : `, entry ${seq}${id === null ? '' : ` (${id})`}`;
  return `BAD  chain ${chainId}${where}: ${reason}`;
}
