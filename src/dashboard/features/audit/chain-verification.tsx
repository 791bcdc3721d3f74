import { Anchor, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { call, type Answer } from '../../api/index.ts';
import { useOrganizations } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useMe } from '../../session/index.ts';
import { Action, asError, formatCount, PagedTable, Panel, StateBadge, When } from '../../ui/index.ts';

type Report = Answer<'POST /audit-logs/verify'>;
interface Outcome {
  /** `null`: the chain of the provider itself. */
  orgId: string | null;
  name: string;
  report?: Report;
  error?: Error;
}

/** Has the server verify each chain that the person sees, one after another. */
export function ChainVerification() {
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
        <Anchor
          inherit
          underline="always"
          renderRoot={(props) => (
            <Link {...props} to="/audit" search={{ entry: fault.entryId ?? undefined }} />
          )}
        >
          Show the entry
        </Anchor>
      )}
    </>
  );
}
