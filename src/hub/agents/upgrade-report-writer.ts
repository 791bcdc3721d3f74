import type { Logger } from '../../platform/logger.ts';
import type { UpgradeHistory, UpgradeReport } from '../ports.ts';
import { AcknowledgedWriter } from './acknowledged-writer.ts';

/** Writes what devices report about their upgrades. */
export class UpgradeReportWriter extends AcknowledgedWriter<UpgradeReport, readonly string[]> {
  /**
   * @param onChanged  called with devices whose status has changed
   * @param onRefused  called when the database has refused single reports
   */
  constructor({
    history,
    onChanged,
    ...parts
  }: {
    history: UpgradeHistory;
    log: Logger;
    onChanged: (deviceIds: readonly string[]) => void;
    onRefused: (count: number) => void;
  }) {
    super({
      ...parts,
      what: 'upgrades',
      write: (reports) => history.record(reports),
      onWritten(changed) {
        if (changed.length > 0) onChanged(changed);
      },
      batchMs: 20,
      batch: 500,
      waitingMax: 20_000,
      // Far more than the phases of an upgrade, and those that were kept while the server was away.
      budget: { requests: 60, windowMs: 60_000 },
    });
  }
}
