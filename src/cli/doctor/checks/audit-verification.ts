import { clock } from '../../../clock.ts';
import { lastVerifications } from '../../../features/audit/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Check, failed, ok, warning } from '../check.ts';

const DAY_MS = 86_400_000;
const WARNS_DAYS = 35;
const SHOWN = 20;

/** When every entry of the audit trail was last verified, and with which outcome. */
export const verificationCheck = (db: Db): Check => ({
  name: 'audit verification',
  async run() {
    const { whole, laterFaults } = await lastVerifications(db);
    const found = whole?.isIntact === false ? whole.faults.map((fault) => ({ at: whole.at, ...fault })) : [];
    const faults = [...found, ...laterFaults];
    if (whole?.isIntact === false || faults.length > 0) {
      const at = faults.reduce(
        (newest, fault) => (fault.at > newest ? fault.at : newest),
        whole?.at ?? new Date(0),
      );
      return failed(
        `The last verification of the audit trail found a chain that is not intact (${at.toISOString()}).`,
        'Keep the database and its backups as they are, find out who changed it, and run `muster audit verify` again after it was restored.',
        faults
          .slice(0, SHOWN)
          .map(
            ({ chainId, seq, reason }) =>
              `chain ${chainId}${seq === null ? '' : `, entry ${seq}`}: ${reason}`,
          ),
      );
    }
    const fix = 'Run `muster audit verify` every month, for example as a timer of the machine.';
    if (whole === undefined) return warning('All chains together were never verified.', fix);
    const message = `All ${whole.chains} chains were intact when they were verified at ${whole.at.toISOString()}.`;
    return clock.now() - whole.at.getTime() >= WARNS_DAYS * DAY_MS ? warning(message, fix) : ok(message);
  },
});
