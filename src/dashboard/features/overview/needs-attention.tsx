import { Group, Stack, Text } from '@mantine/core';
import { IconCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { type AlertCause, apiQuery, useApiChange } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { ButtonLink, Loaded, Panel, RunAction, TextLink, When } from '../../ui/index.ts';
import { SeverityBadge } from '../alerts/index.ts';
import { causeDetail, causeText, nextStep } from './cause-text.ts';
import styles from './needs-attention.module.css';

const SHOWN = '10';
const REFRESH_MS = 15_000;
const READS = ['GET /alerts/causes', 'GET /alerts', 'GET /alerts/summary'] as const;

/** What needs a person now: a line for each cause, the worst first, with the next step. */
export function NeedsAttention() {
  const { orgId } = scopeQuery(useScope());
  const causes = useQuery({
    ...apiQuery('GET /alerts/causes', { query: { limit: SHOWN, orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel
      title="Needs attention"
      aside={
        <TextLink size="sm" to="/alerts">
          All alerts
        </TextLink>
      }
    >
      <Loaded query={causes} what="Reading alerts">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">Nothing needs attention.</Text>
          ) : (
            <ul className={styles['causes']}>
              {data.map((cause) => (
                <Cause key={`${cause.orgId} ${cause.kind} ${cause.alertIds[0]}`} cause={cause} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Cause({ cause }: { cause: AlertCause }) {
  const names = useNames();
  const { orgId, siteId, severity, count, firstAt, alertIds } = cause;
  const place = {
    organization: names.organization(orgId),
    site: siteId === null ? undefined : names.site(siteId),
  };
  const detail = causeDetail(cause, place);
  const refusal = useRefusal('alerts:write');
  const acknowledge = useApiChange('POST /alerts/bulk', { refreshes: READS });
  return (
    <li>
      <span>
        <SeverityBadge severity={severity} />
      </span>
      <Stack gap={0} flex={1} miw={0}>
        <Text size="sm" fw={500} style={{ overflowWrap: 'anywhere' }}>
          <Title cause={cause} text={causeText(cause, place)} />
        </Text>
        <Text size="xs" style={{ overflowWrap: 'anywhere' }}>
          {detail !== '' && `${detail} · `}
          <When at={firstAt} />
        </Text>
      </Stack>
      <Group gap={4} wrap="nowrap">
        <Next cause={cause} />
        {count === alertIds.length && (
          <RunAction
            inRow
            icon={IconCheck}
            refusal={refusal}
            run={() => acknowledge.mutateAsync({ body: { alertIds, action: 'acknowledge' } })}
          >
            Acknowledge
          </RunAction>
        )}
      </Group>
    </li>
  );
}

/** Leads to the alert, or to the list of them. */
function Title({ cause: { orgId, kind, count, alertIds }, text }: { cause: AlertCause; text: string }) {
  const [first] = alertIds;
  return count === 1 && first !== undefined ? (
    <TextLink inherit to="/alerts" search={{ alert: first }}>
      {text}
    </TextLink>
  ) : (
    <TextLink inherit to="/alerts" search={{ org: orgId, kind, status: ['active'] }}>
      {text}
    </TextLink>
  );
}

const BUTTON = { size: 'compact-xs', variant: 'default' } as const;

function Next({ cause }: { cause: AlertCause }) {
  const { orgId, siteId, devices } = cause;
  const [device] = devices;
  const org = { org: orgId };
  const step = nextStep(cause);
  switch (step) {
    case 'device':
      return (
        device !== undefined && (
          <ButtonLink {...BUTTON} to="/devices/$deviceId" params={{ deviceId: device.id }}>
            Look at the device
          </ButtonLink>
        )
      );
    case 'devices':
      return (
        <ButtonLink
          {...BUTTON}
          to="/devices"
          search={{ ...org, site: siteId ?? undefined, status: ['offline'] }}
        >
          Look at the devices
        </ButtonLink>
      );
    case 'capacity':
      return (
        <ButtonLink {...BUTTON} to="/capacity" search={org}>
          See the fullest disks
        </ButtonLink>
      );
    case 'backup':
      return (
        <ButtonLink {...BUTTON} to="/backup/jobs" search={org}>
          See the backup jobs
        </ButtonLink>
      );
    case 'alerts':
      return null;
    default:
      return step satisfies never;
  }
}
