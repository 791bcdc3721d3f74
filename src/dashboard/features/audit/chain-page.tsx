import { Code, List, Text, Title, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, call, type Answer } from '../../api/index.ts';
import {
  CopyText,
  Loaded,
  PagedTable,
  Panel,
  StateBadge,
  When,
  Action,
  asError,
  formatCount,
  TextLink,
} from '../../ui/index.ts';
import { useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe } from '../../session.ts';
import { AuditFrame } from './audit-frame.tsx';

const VERIFY = 'npm run muster -- audit verify';
const EXPORT = 'npm run muster -- audit export --org <id> --out audit.bundle';
const VERIFY_BUNDLE = 'npm run muster -- audit verify --bundle audit.bundle';

/** Verification of the audit chain against tampering. */
export function ChainPage() {
  const keys = useQuery(apiQuery('GET /audit-keys', { query: { limit: '100' } }));
  return (
    <AuditFrame
      title="Audit chain"
      description="Each entry holds the checksum of the one before it, and keys seal the chain."
    >
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
    </AuditFrame>
  );
}

type Report = Answer<'POST /audit-logs/verify'>;
interface Outcome {
  /** `null`: the chain of the provider itself. */
  orgId: string | null;
  name: string;
  report?: Report;
  error?: Error;
}

/** Has the server verify each chain that the person sees, one after another. */
function ChainVerification() {
  const chains = useChains();
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    setOutcomes([]);
    for (const chain of chains) {
      const outcome = await verifyOne(chain);
      setOutcomes((before) => [...before, outcome]);
    }
    setBusy(false);
  };
  const broken = outcomes.filter(({ report, error }) => error !== undefined || report?.fault != null);
  return (
    <Panel title="Verify the trail" label="Verification">
      <Text size="sm">
        The server compares every entry with its checksum, with the entry before it, and with the signatures.
        It finds entries that were changed, removed, inserted or moved.
      </Text>
      <Group gap="sm">
        <Action loading={isBusy} onClick={() => void verify()}>
          Verify now
        </Action>
        <Text size="sm" component="output" aria-live="polite">
          {outcomes.length > 0 &&
            `${formatCount(outcomes.length)} of ${formatCount(chains.length)} verified, ${formatCount(broken.length)} with a fault`}
        </Text>
      </Group>
      {outcomes.length > 0 && (
        <PagedTable
          label="Verified chains"
          rows={[...broken, ...outcomes.filter((outcome) => !broken.includes(outcome))]}
          keyOf={({ orgId }) => orgId ?? 'provider'}
          columns={[
            { header: 'Chain of', isName: true, cell: ({ name }) => name },
            { header: 'State', width: 120, cell: (outcome) => <ChainState outcome={outcome} /> },
            {
              header: 'Entries',
              align: 'right',
              width: 90,
              cell: ({ report }) => (report === undefined ? '–' : formatCount(report.entries)),
            },
            { header: 'What was found', cell: (outcome) => <Finding outcome={outcome} /> },
            {
              header: 'Verified',
              width: 110,
              cell: ({ report }) => <When at={report?.verifiedAt ?? null} />,
            },
          ]}
        />
      )}
    </Panel>
  );
}

/** Those of the chosen organization, or of all and of the provider itself. */
function useChains(): readonly Outcome[] {
  const me = useMe();
  const scope = useScope();
  const organizations = useOrganizations()
    .filter(({ id }) => scope.orgId === undefined || scope.orgId === id)
    .map(({ id, name }) => ({ orgId: id, name }));
  const isProvider = me.scope === 'partner' && scope.orgId === undefined;
  return isProvider ? [{ orgId: null, name: 'Your company' }, ...organizations] : organizations;
}

async function verifyOne(chain: Outcome): Promise<Outcome> {
  const { orgId } = chain;
  try {
    const report = await call('POST /audit-logs/verify', { body: { orgId } });
    return { ...chain, report };
  } catch (thrown) {
    return { ...chain, error: asError(thrown) };
  }
}

function ChainState({ outcome: { report, error } }: { outcome: Outcome }) {
  if (error !== undefined) return <StateBadge tone="warning" label="Not verified" />;
  return report?.fault == null ? (
    <StateBadge tone="good" label="Intact" />
  ) : (
    <StateBadge tone="bad" label="Broken" />
  );
}

function Finding({ outcome: { report, error } }: { outcome: Outcome }) {
  if (error !== undefined) return error.message;
  const fault = report?.fault;
  if (fault == null) return 'Every entry is as it was written.';
  return (
    <>
      {fault.seq === null ? 'The chain' : `Entry ${formatCount(fault.seq)}`}: {fault.reason}.{' '}
      {fault.entryId !== null && (
        <TextLink inherit underline="always" to="/audit" search={{ entry: fault.entryId ?? undefined }}>
          Show the entry
        </TextLink>
      )}
    </>
  );
}
