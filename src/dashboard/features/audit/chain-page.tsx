import { Code, List, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/index.ts';
import { CopyText, Loaded, Page, PagedTable, Panel, StateBadge, When } from '../../ui/index.ts';
import { AuditTabs } from './audit-tabs.tsx';
import { ChainVerification } from './chain-verification.tsx';

const VERIFY = 'npm run muster -- audit verify';
const EXPORT = 'npm run muster -- audit export --org <id> --out audit.bundle';
const VERIFY_BUNDLE = 'npm run muster -- audit verify --bundle audit.bundle';

/** How one knows that nobody tampered with the trail. */
export function ChainPage() {
  const keys = useQuery(apiQuery('GET /audit-keys', { query: { limit: '100' } }));
  return (
    <Page
      title="Audit chain"
      description="Each entry holds the checksum of the one before it, and keys seal the chain."
    >
      <AuditTabs />
      <ChainVerification />
      <Panel title="Without trust in this server" label="Verification by a command">
        <Text size="sm">
          A server that was tampered with would vouch for itself. An auditor therefore runs a command, where
          the machine is trusted.
        </Text>
        <List size="sm" spacing="xs" type="ordered" listStyleType="decimal">
          <List.Item>
            On the server, all chains:
            <CopyText label="Command that verifies all chains" text={VERIFY} />
          </List.Item>
          <List.Item>
            For an auditor, one organization as a file, which <Code>audit verify</Code> checks without a
            database:
            <CopyText label="Command that exports a chain" text={EXPORT} />
            <CopyText label="Command that verifies an exported chain" text={VERIFY_BUNDLE} />
          </List.Item>
        </List>
      </Panel>
      <Title order={2} size="h5">
        Keys
      </Title>
      <Loaded query={keys} what="Reading keys">
        {({ data }) => (
          <PagedTable
            label="Keys of the audit trail"
            rows={data}
            keyOf={({ keyId }) => keyId}
            columns={[
              { header: 'Key', isName: true, cell: ({ keyId }) => keyId },
              {
                header: 'State',
                width: 110,
                cell: ({ retiredAt }) =>
                  retiredAt === null ? (
                    <StateBadge tone="good" label="In use" />
                  ) : (
                    <StateBadge tone="neutral" label="Retired" />
                  ),
              },
              { header: 'Since', width: 120, cell: ({ createdAt }) => <When at={createdAt} /> },
              { header: 'Until', width: 120, cell: ({ retiredAt }) => <When at={retiredAt} never="–" /> },
              {
                header: 'Public key (Ed25519)',
                cell: ({ publicKey, keyId }) => (
                  <CopyText label={`Public key ${keyId}`} text={publicKey.trim()} />
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}
