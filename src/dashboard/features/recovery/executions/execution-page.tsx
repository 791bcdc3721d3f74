import { Alert, Anchor, Group, Progress, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconPlayerStop } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  apiQuery,
  useApiChange,
  useRefreshOn,
  type RecoveryExecutionDetail,
  type RecoveryReport,
} from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  ConfirmAction,
  formatCount,
  formatDuration,
  formatWord,
  Loaded,
  Panel,
  When,
} from '../../../ui/index.ts';
import { FactLine } from '../parts/fact-line.tsx';
import { RecoveryFrame } from '../parts/recovery-frame.tsx';
import { Reached, RecoveryState, TYPE_NAMES } from '../parts/recovery-words.tsx';
import { devicesText } from './executions-page.tsx';
import { Timeline } from './timeline.tsx';

const route = getRouteApi('/signed-in/recovery/executions/$executionId');
const READS = [
  'GET /dr/executions/{id}',
  'GET /dr/executions',
  'GET /dr/plans',
  'GET /dr/plans/{id}',
] as const;
const REFRESH_MS = 5000;

/** One execution, step by step, while it goes on and afterwards. */
export function ExecutionPage() {
  const { executionId: id } = route.useParams();
  const execution = useQuery({
    ...apiQuery('GET /dr/executions/{id}', { params: { id } }),
    refetchInterval: ({ state }) => (state.data?.finishedAt === null ? REFRESH_MS : false),
  });
  const [live] = useLiveJobs({ jobId: id });
  // Whatever has become known of it, its steps are read again.
  useRefreshOn(live === undefined ? '' : `${live.state} ${live.phase} ${live.at}`, READS);
  return (
    <Loaded query={execution} what="Reading the execution">
      {(data) => <Execution execution={data} phase={live?.phase} />}
    </Loaded>
  );
}

function Execution({ execution, phase }: { execution: RecoveryExecutionDetail; phase: string | undefined }) {
  const { id, planId, planName, executionType, status, report, note } = execution;
  const refusal = useRefusal('recovery:execute');
  const abort = useApiChange('POST /dr/executions/{id}/abort', { refreshes: READS });
  const isOpen = execution.finishedAt === null;
  const asked = execution.abortRequestedAt === null ? undefined : 'It is being aborted already.';
  return (
    <RecoveryFrame
      title={`${TYPE_NAMES[executionType]} of ${planName}`}
      description={
        <Group gap={8}>
          <RecoveryState state={status} />
          <span>
            Started by {execution.trigger === 'manual' ? 'a person' : 'its schedule'}{' '}
            <When at={execution.createdAt} />
            {planId !== null && ' · '}
          </span>
          {planId !== null && (
            <Anchor
              inherit
              underline="always"
              renderRoot={(props) => <Link {...props} to="/recovery/plans/$planId" params={{ planId }} />}
            >
              To the plan
            </Anchor>
          )}
        </Group>
      }
      actions={
        isOpen && (
          <ConfirmAction
            variant="default"
            refusal={refusal ?? asked}
            leftSection={<IconPlayerStop size={14} aria-hidden />}
            title={`Abort this ${executionType}`}
            question={
              executionType === 'rehearsal'
                ? 'What runs on the devices is cancelled, and everything that the rehearsal has started is taken down.'
                : 'What runs on the devices is cancelled. What has been done by then stays so.'
            }
            confirm="Abort"
            run={() => abort.mutateAsync({ params: { id } })}
          >
            Abort …
          </ConfirmAction>
        )
      }
    >
      {note !== null && <Text size="sm">{note}</Text>}
      {isOpen && <Standing execution={execution} phase={phase} />}
      {execution.haltReason !== null && (
        <Alert color={status === 'failed' ? 'red' : 'orange'} icon={<IconAlertTriangle aria-hidden />}>
          <Text size="sm">{execution.haltReason}</Text>
        </Alert>
      )}
      {report !== null && <Report report={report} execution={execution} />}
      <Timeline execution={execution} />
    </RecoveryFrame>
  );
}

function Standing({ execution, phase }: { execution: RecoveryExecutionDetail; phase: string | undefined }) {
  const total = Object.values(execution.stepCounts).reduce((sum, count) => sum + count, 0);
  const { waiting = 0, running = 0, checking = 0 } = execution.stepCounts;
  const done = total - waiting - running - checking;
  const begun = execution.startedAt === null ? undefined : Date.parse(execution.startedAt);
  return (
    <Stack gap={4}>
      <Progress
        // Before the first device is done, a moving bar says that work goes on.
        value={done === 0 ? 100 : (100 * done) / Math.max(1, total)}
        striped={done === 0}
        animated={done === 0}
        aria-label="Progress of the execution"
      />
      <Text size="sm" component="output" aria-live="polite">
        {begun === undefined ? 'It waits for its turn' : formatWord(phase ?? 'restoring')} ·{' '}
        {formatCount(done)} of {formatCount(total)} devices
      </Text>
      {execution.abortRequestedAt !== null && (
        <Text size="sm" fw={600}>
          It is being aborted since <When at={execution.abortRequestedAt} />.
        </Text>
      )}
    </Stack>
  );
}

function Report({ report, execution }: { report: RecoveryReport; execution: RecoveryExecutionDetail }) {
  const { rtoSeconds, rtoTargetMinutes, rtoMet, rpoSeconds, rpoTargetMinutes, rpoMet } = report;
  const { startedAt, finishedAt, executionType } = execution;
  return (
    <Panel title="Report">
      <FactLine
        facts={[
          [
            'Time to recover (RTO)',
            <Reached key="rto" seconds={rtoSeconds} targetMinutes={rtoTargetMinutes} isMet={rtoMet} />,
          ],
          [
            'Age of the data (RPO)',
            executionType === 'failback' ? undefined : (
              <Reached key="rpo" seconds={rpoSeconds} targetMinutes={rpoTargetMinutes} isMet={rpoMet} />
            ),
          ],
          ['Devices', devicesText(execution)],
          [
            'Took in all',
            startedAt === null || finishedAt === null
              ? undefined
              : formatDuration(Date.parse(finishedAt) - Date.parse(startedAt)),
          ],
          [
            'Abort took',
            report.abortSeconds === null ? undefined : formatDuration(report.abortSeconds * 1000),
          ],
          [
            'Left behind',
            report.leftovers === 0
              ? 'Nothing'
              : `${formatCount(report.leftovers)} on devices that are away, until they return`,
          ],
        ]}
      />
    </Panel>
  );
}
