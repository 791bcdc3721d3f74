import { type NewAlert, raiseAlert } from '../../src/features/alerts/index.ts';
import type { Tx } from '../../src/platform/db/transaction.ts';

/** Raises an alert that no rule refuses, and returns its id. */
export async function raisedAlert(tx: Tx, alert: NewAlert): Promise<string> {
  const id = await raiseAlert(tx, alert);
  if (id === undefined) throw new Error(`A rule refused the alert ${alert.kind}.`);
  return id;
}
