import type { z } from 'zod';
import { BACKUP_COMMANDS } from './backups/backup.ts';
import { DATABASE_COMMANDS } from './backups/databases.ts';
import { EVENT_LOG_COMMANDS } from './event-logs.ts';
import { INVENTORY_COMMANDS } from './inventory.ts';
import type { Lane } from './lanes.ts';
import { MACHINE_COMMANDS } from './machines.ts';
import { POWER_COMMANDS } from './power.ts';
import { RECOVERY_COMMANDS } from './recovery.ts';
import { SCRIPT_COMMANDS } from './scripts.ts';
import { SHADOW_COPY_COMMANDS } from './shadow-copies.ts';
import { SQL_SERVER_COMMANDS } from './sql-server.ts';
import type { CommandShape, CommandTable } from './shape.ts';
import { UPDATE_COMMANDS } from './updates.ts';
import { VM_RESTORE_COMMANDS } from './vms/vm-restores.ts';

export * from './backups/backup-parts.ts';
export * from './backups/backup.ts';
export * from './backups/databases.ts';
export * from './lanes.ts';
export * from './machines.ts';
export * from './outcome.ts';
export * from './recovery.ts';
export * from './scripts.ts';
export * from './secrets.ts';
export * from './shadow-copies.ts';
export * from './sql-server.ts';
export * from './backups/snapshot-details.ts';
export * from './vms/vm-restores.ts';

/** Everything the server can ask of an agent. An agent lists in its handshake the types that it supports. */
export const COMMANDS = {
  ...EVENT_LOG_COMMANDS,
  ...SCRIPT_COMMANDS,
  ...UPDATE_COMMANDS,
  ...INVENTORY_COMMANDS,
  ...POWER_COMMANDS,
  ...BACKUP_COMMANDS,
  ...SHADOW_COPY_COMMANDS,
  ...MACHINE_COMMANDS,
  ...SQL_SERVER_COMMANDS,
  ...VM_RESTORE_COMMANDS,
  ...DATABASE_COMMANDS,
  ...RECOVERY_COMMANDS,
} as const satisfies CommandTable;

export type CommandType = keyof typeof COMMANDS;
export const COMMAND_TYPES = Object.keys(COMMANDS) as CommandType[];
export type CommandPayload<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['payload']>;
export type CommandOutput<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['output']>;
export type CommandRow<T extends CommandType> = (typeof COMMANDS)[T] extends {
  row: infer R extends z.ZodType;
}
  ? z.infer<R>
  : never;

/** The row schema of a command that streams, `undefined` for one that does not. */
export function rowSchema(type: CommandType): z.ZodType | undefined {
  const shape: CommandShape = COMMANDS[type];
  return shape.row;
}

/** The commands that the server's ledger carries. */
export type DurableCommandType = {
  [T in CommandType]: (typeof COMMANDS)[T] extends { lane: Lane } ? T : never;
}[CommandType];

export function isDurable(type: string): type is DurableCommandType {
  return Object.hasOwn(COMMANDS, type) && 'lane' in COMMANDS[type as CommandType];
}
export const DURABLE_COMMAND_TYPES = COMMAND_TYPES.filter(isDurable);

/** The durable commands that people can send; the others are made by the server for a purpose of its own. */
export type SendableCommandType = {
  [T in DurableCommandType]: (typeof COMMANDS)[T] extends { isOfServer: true } ? never : T;
}[DurableCommandType];
export const SENDABLE_COMMAND_TYPES = DURABLE_COMMAND_TYPES.filter(
  (type): type is SendableCommandType => !('isOfServer' in COMMANDS[type]),
);

/** The lane of a durable command. A type of another release, which this one does not know, runs as `work`. */
export function laneOf(type: string): Lane {
  return isDurable(type) ? COMMANDS[type].lane : 'work';
}
