-- online
-- Each server looks from time to time for commands that were sent under an older claim than the one under which their
-- device is connected (`undeliveredDevices` in src/features/commands/command-ledger.queries.ts). A command is `dispatched`
-- for less than a second, so this index is nearly empty.
create index concurrently if not exists commands_dispatched on commands (device_id, epoch) where status = 'dispatched';
