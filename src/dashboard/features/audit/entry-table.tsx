import { Group, Text, Code, Stack, Table, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type AuditLog, apiQuery, type FullAuditLog } from '../../api/index.ts';
import {
  formatWord,
  PagedTable,
  StateBadge,
  When,
  CopyText,
  formatTime,
  Loaded,
  TextLink,
  Drawer,
  type Column,
} from '../../ui/index.ts';
import { useNames } from '../../directory.ts';

const RESULTS = { success: 'good', failure: 'bad', denied: 'warning' } as const;

export function ResultBadge({ result }: { result: AuditLog['result'] }) {
  return <StateBadge tone={RESULTS[result]} label={formatWord(result)} />;
}

/** The actor of an entry; devices and the server itself have no name and no address. */
export const personText = ({ name, email }: AuditLog['user']): string => name ?? email ?? 'Muster';

/** Entries of the audit trail. The action opens the entry. */
export const entryColumns: readonly Column<AuditLog>[] = [
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
        <TextLink inherit to="/audit" search={(previous) => ({ ...previous, entry: id })}>
          {formatWord(action)}
        </TextLink>
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
];

/** Some entries in a part of a page. */
export const EntryTable = ({ entries, label }: { entries: readonly AuditLog[]; label: string }) => (
  <PagedTable label={label} rows={entries} keyOf={({ id }) => id} columns={entryColumns} />
);

/** One entry with all that it holds: what was before and after, and its place in the chain. */
export function EntryDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      size="lg"
      title="Audit entry"
      closeButtonProps={{ 'aria-label': 'Close the entry' }}
    >
      {id !== undefined && <Entry id={id} />}
    </Drawer>
  );
}

function Entry({ id }: { id: string }) {
  const entry = useQuery(apiQuery('GET /audit-logs/logs/{id}', { params: { id } }));
  return (
    <Loaded query={entry} what="Reading the entry">
      {(data) => <Facts entry={data} />}
    </Loaded>
  );
}

function Facts({ entry }: { entry: FullAuditLog }) {
  const names = useNames();
  const { before, after, ...details } = entry.details;
  const facts: [string, ReactNode][] = [
    ['Time', formatTime(new Date(entry.timestamp))],
    ['Who', `${personText(entry.user)} (${formatWord(entry.actorType).toLowerCase()})`],
    ['Role', entry.user.role],
    ['Action', entry.action],
    ['Category', formatWord(entry.category)],
    ['Resource', `${formatWord(entry.resource.type)} ${entry.resource.name ?? entry.resource.id ?? ''}`],
    ['Organization', entry.orgId === null ? null : names.organization(entry.orgId)],
    ['Result', <ResultBadge key="result" result={entry.result} />],
    ['Error', entry.errorMessage],
    ['Address', entry.ipAddress],
    ['Program', entry.userAgent],
  ];
  return (
    <Stack>
      <Table variant="vertical" layout="auto" verticalSpacing={4} aria-label="The entry">
        <Table.Tbody>
          {facts.map(
            ([name, value]) =>
              value !== null && (
                <Table.Tr key={name}>
                  <Table.Th w={120}>{name}</Table.Th>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
                </Table.Tr>
              ),
          )}
        </Table.Tbody>
      </Table>
      <Changes before={before} after={after} />
      {Object.keys(details).length > 0 && (
        <Section title="Details">
          <Json value={details} label="Details" />
        </Section>
      )}
      <Section title="Place in the chain">
        <Text size="sm">
          Entry number {entry.seq} of its chain. Its checksum covers all of its fields and the checksum of the
          entry before it.
        </Text>
        <CopyText label="Checksum" text={entry.checksum} />
        {entry.prevChecksum !== null && (
          <CopyText label="Checksum of the entry before" text={entry.prevChecksum} />
        )}
      </Section>
    </Stack>
  );
}

/** The state before and after, field by field if both are objects. */
function Changes({ before, after }: { before: unknown; after: unknown }) {
  if (before === undefined && after === undefined) return null;
  const [old, young] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(young)])];
  return (
    <Section title="What changed">
      <Table verticalSpacing={4} aria-label="What changed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Field</Table.Th>
            <Table.Th>Before</Table.Th>
            <Table.Th>After</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {names.map((name) => (
            <Table.Tr key={name}>
              <Table.Th scope="row">{name}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{shown(old[name])}</Table.Td>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{shown(young[name])}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function fieldsOf(value: unknown): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  if (typeof value === 'object' && !Array.isArray(value)) return { ...value };
  return { value };
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return '–';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function Json({ value, label }: { value: unknown; label: string }) {
  return (
    <Code block tabIndex={0} aria-label={label} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {JSON.stringify(value, null, 2)}
    </Code>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap={6} component="section" aria-label={title}>
      <Group>
        <Title order={3} size="h6">
          {title}
        </Title>
      </Group>
      {children}
    </Stack>
  );
}
