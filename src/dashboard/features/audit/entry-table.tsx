import { Anchor, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { AuditLog } from '../../api/index.ts';
import { formatWord, PagedTable, StateBadge, When } from '../../ui/index.ts';

const RESULTS = { success: 'good', failure: 'bad', denied: 'warning' } as const;

export function ResultBadge({ result }: { result: AuditLog['result'] }) {
  return <StateBadge tone={RESULTS[result]} label={formatWord(result)} />;
}

/** Who it was; devices and the server itself have no name and no address. */
export const personText = ({ name, email }: AuditLog['user']): string => name ?? email ?? 'Muster';

/** Entries of the audit trail, newest first. The action opens the entry. */
export function EntryTable({ entries, label }: { entries: readonly AuditLog[]; label: string }) {
  return (
    <PagedTable
      label={label}
      rows={entries}
      keyOf={({ id }) => id}
      columns={[
        { header: 'Time', width: 120, cell: ({ timestamp }) => <When at={timestamp} /> },
        {
          header: 'Person',
          cell: ({ user }) => (
            <>
              {personText(user)}
              {user.name !== null && user.email !== null && (
                <Text size="xs" c="dimmed">
                  {user.email}
                </Text>
              )}
            </>
          ),
        },
        {
          header: 'Action',
          isName: true,
          cell: ({ id, action, category }) => (
            <>
              <Anchor
                inherit
                renderRoot={(props) => (
                  <Link {...props} to="/audit" search={(previous) => ({ ...previous, entry: id })} />
                )}
              >
                {formatWord(action)}
              </Anchor>
              <Text size="xs" c="dimmed" fw={400}>
                {action} · {formatWord(category)}
              </Text>
            </>
          ),
        },
        {
          header: 'Resource',
          cell: ({ resource }) => (
            <>
              {resource.name ?? resource.id ?? '–'}
              <Text size="xs" c="dimmed">
                {formatWord(resource.type)}
              </Text>
            </>
          ),
        },
        {
          header: 'Result',
          width: 120,
          cell: ({ result }) => (
            <Group gap={4}>
              <ResultBadge result={result} />
            </Group>
          ),
        },
        { header: 'Address', width: 130, cell: ({ ipAddress }) => ipAddress ?? '–' },
      ]}
    />
  );
}
