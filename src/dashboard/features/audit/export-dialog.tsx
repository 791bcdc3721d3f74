import { Alert, Button, Group, Modal, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { download, type AuditLog, type AuditPagination } from '../../api/index.ts';
import { Failure, formatCount, saveFile } from '../../ui/index.ts';

/** The server exports no more entries than this. */
const EXPORT_MAX = 10_000;

export interface EntryFilter {
  user?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  category?: AuditLog['category'] | undefined;
  orgId?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Asks before it exports, and says what the file will hold: exactly the entries of the list, or the newest of them. */
export function ExportDialog({
  opened,
  onClose,
  filter,
  page,
}: {
  opened: boolean;
  onClose: () => void;
  filter: EntryFilter;
  page: AuditPagination | undefined;
}) {
  const save = useMutation({
    mutationFn: async () => {
      const { blob, name } = await download('GET /audit-logs/export', { query: filter });
      saveFile(name ?? 'audit.csv', blob);
    },
    onSuccess: onClose,
  });
  const total = page?.total;
  return (
    <Modal opened={opened} onClose={onClose} title="Export as CSV" centered>
      <Stack>
        <Text size="sm">
          {total === undefined
            ? 'The file will hold the entries that match the filters of the list, newest first.'
            : `The file will hold ${page?.totalIsMinimum === true ? 'more than ' : ''}${formatCount(total)} ${total === 1 ? 'entry' : 'entries'}: those that match the filters of the list, newest first.`}{' '}
          The export itself is written to the audit trail.
        </Text>
        {total !== undefined && (total > EXPORT_MAX || page?.totalIsMinimum === true) && (
          <Alert color="orange" icon={<IconAlertTriangle aria-hidden />} title="Not all of them fit">
            An export holds the newest {formatCount(EXPORT_MAX)} entries. For older ones, export one span of
            time after the other.
          </Alert>
        )}
        {save.error !== null && <Failure error={save.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button loading={save.isPending} onClick={() => save.mutate()}>
            Export
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
