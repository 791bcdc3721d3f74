import type { BackupOrder } from '../engine-port.ts';
import { ask, type PostgresServer, type PostgresState } from './server.ts';

/**
 * A replication slot keeps the log on the server until the next backup has it. It is used only where the server bounds what
 * a slot keeps: otherwise the slot of an agent that is gone would fill the disk of a customer.
 */

type Parts = Pick<BackupOrder, 'chainId' | 'signal' | 'warn'>;

/** Hexadecimal digits and a word only, so that it can be part of a statement. */
const nameOf = (chainId: string) => `muster_${chainId.replaceAll(/[^0-9a-f]/g, '')}`;

const isBounded = ({ slotKeepMb }: PostgresState) => slotKeepMb !== null && slotKeepMb >= 0;

/** Keeps the log from now on. */
export async function holdLogs(
  server: PostgresServer,
  state: PostgresState,
  { chainId, signal, warn }: Parts,
): Promise<'slot' | 'nobody'> {
  const slot = nameOf(chainId);
  const drop = `select pg_drop_replication_slot(slot_name) is null from pg_replication_slots where slot_name = '${slot}' and not active`;
  try {
    // The one of an earlier chain may be lost, or keep what is not needed any more.
    await ask(server, [drop], signal);
    if (!isBounded(state)) return 'nobody';
    await ask(server, [`select pg_create_physical_replication_slot('${slot}', true) is null`], signal);
    return 'slot';
  } catch (error) {
    signal.throwIfAborted();
    warn(`No replication slot keeps the log of the database: ${String(error)}`);
    return 'nobody';
  }
}

/** Lets go of what the backups have by now. */
export async function releaseLogs(
  server: PostgresServer,
  upTo: string,
  { chainId, signal }: Parts,
): Promise<'slot' | 'nobody'> {
  const slot = nameOf(chainId);
  const advance = `select count(pg_replication_slot_advance(slot_name, '${upTo}'::pg_lsn)) from pg_replication_slots
    where slot_name = '${slot}' and not active and restart_lsn < '${upTo}'::pg_lsn`;
  const known = `select count(*) from pg_replication_slots where slot_name = '${slot}' and wal_status <> 'lost'`;
  try {
    const [, count] = await ask(server, [advance, known], signal);
    return count === '1' ? 'slot' : 'nobody';
  } catch {
    signal.throwIfAborted();
    return 'nobody';
  }
}
