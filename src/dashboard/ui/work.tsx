import { Anchor, Group, Progress, Stack, Text, Title } from '@mantine/core';
import { useQuery, type UndefinedInitialDataOptions } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { JobOutput, JobUpdate } from '../../protocol/index.ts';
import { useRefreshOn } from '../api/index.ts';
import { useLiveJobs } from '../live/index.ts';
import { Action, ConfirmAction, RunAction } from './action.tsx';
import { Cause, FactTable, type Facts } from './facts.tsx';
import { formatBytes, formatCount, formatDuration, formatSpan, formatTime, formatWord } from './format.ts';
import { ListPage, type ListPageProps } from './list-page.tsx';
import { DetailsDrawer } from './overlay.tsx';
import { TwoLines, type Column } from './paged-table.tsx';
import { Loaded } from './states.tsx';
import { jobState, StateBadge, type StateLook } from './status.tsx';
import { When } from './time.tsx';

/**
 * Work that people wait for, such as a backup, a restore or a rehearsal, as lists and drawers show it. Each kind says
 * with one function what its rows are in these words; `WorkList` and `WorkDrawer` do the rest.
 */
export interface Work {
  /** `idle` where nothing is being done: after the end, and while a machine merely runs. */
  stage: 'waiting' | 'running' | 'idle';
  state: StateLook;
  /** Why it has not begun, as a sentence. */
  waits?: string | undefined;
  /** How far it is. What the hub says of it is newer. */
  standing?: Standing | undefined;
  error?: { code: string; message: string } | null | undefined;
  /** The consequence of the error for the work, such as "It is not whole". */
  errorTitle?: string;
  /** The result, of work that has ended without an error. */
  outcome?: ReactNode;
  /** When it was asked to stop. */
  cancelRequestedAt?: string | null;
  startedBy?: string | undefined;
  createdAt: string;
  startedAt?: string | null;
  finishedAt?: string | null;
}

/** The begin of a `Work`, of what has the states of most kinds. */
export const workOf = (row: { status: string; createdAt: string; startedAt?: string | null }) => ({
  stage:
    row.status === 'pending'
      ? ('waiting' as const)
      : row.status === 'running'
        ? ('running' as const)
        : ('idle' as const),
  state: jobState({ state: row.status }),
  createdAt: row.createdAt,
  startedAt: row.startedAt ?? null,
});

/** How far work is, as was last said. */
export interface Standing {
  phase?: string | null | undefined;
  percent?: number | null | undefined;
  done?: number | null | undefined;
  total?: number | null | undefined;
  rate?: number | null | undefined;
  etaSeconds?: number | null | undefined;
  filesDone?: number | null | undefined;
  filesTotal?: number | null | undefined;
  path?: string | null | undefined;
  message?: string | null | undefined;
  stalledSince?: string | null | undefined;
  /** In place of what the other parts say, where they count something else than bytes. */
  text?: string | undefined;
}

function partsOf(standing: Standing): string[] {
  const { phase, percent, done, total, rate, etaSeconds, filesDone, filesTotal, message } = standing;
  return [
    phase == null ? undefined : formatWord(phase),
    percent == null ? undefined : `${Math.round(percent)} %`,
    done == null
      ? undefined
      : total == null
        ? formatBytes(done)
        : `${formatBytes(done)} of ${formatBytes(total)}`,
    filesDone == null
      ? undefined
      : `${formatCount(filesDone)}${filesTotal == null ? '' : ` of ${formatCount(filesTotal)}`} files`,
    rate == null || rate === 0 ? undefined : `${formatBytes(rate)}/s`,
    etaSeconds == null ? undefined : `${formatDuration(etaSeconds * 1000)} left`,
    message ?? undefined,
  ].filter((part) => part !== undefined);
}

/** A bar that moves by itself where the end of the work is not known. */
function Bar({ percent, label, size }: { percent: number | null | undefined; label: string; size: string }) {
  return (
    <Progress
      w="100%"
      size={size}
      value={percent ?? 100}
      striped={percent == null}
      animated={percent == null}
      aria-label={label}
    />
  );
}

/** How far work is: a bar, and in words what is done, how fast, and how long it will still take. */
export function WorkProgress({ standing, label }: { standing: Standing; label: string }) {
  const { percent, path, stalledSince, text } = standing;
  const parts = partsOf(standing);
  return (
    <Stack gap={4}>
      <Bar percent={percent} label={label} size="md" />
      <Text size="sm">{text ?? (parts.length === 0 ? 'It has begun.' : parts.join(' · '))}</Text>
      {path != null && (
        <Text size="xs" c="dimmed" truncate title={path}>
          {path}
        </Text>
      )}
      <Stalled since={stalledSince} />
    </Stack>
  );
}

const Stalled = ({ since }: { since: string | null | undefined }) =>
  since == null ? null : (
    <Text size="sm" fw={600}>
      It has not advanced since <When at={since} />.
    </Text>
  );

/** The state of work in a list, with a bar while it goes on. */
export function WorkState({ work: { state, stage, standing }, label }: { work: Work; label: string }) {
  return (
    <Stack gap={3} align="flex-start">
      <StateBadge {...state} />
      {stage === 'running' && <Bar percent={standing?.percent} label={label} size="xs" />}
    </Stack>
  );
}

/** The state of work in one line of a list. */
function Outline({ work: { stage, waits, standing = {}, error, outcome } }: { work: Work }) {
  if (error != null) return error.message;
  if (stage === 'waiting') return waits ?? 'It waits for its turn.';
  if (stage === 'idle') return outcome ?? '–';
  const { phase, percent, text, stalledSince } = standing;
  const short = text ?? (partsOf({ phase, percent }).join(', ') || 'Running');
  return stalledSince == null ? short : <TwoLines below={<Stalled since={stalledSince} />}>{short}</TwoLines>;
}

type Live = JobUpdate | undefined;
/** Maps a row of one kind of work, with its newest update from the hub, to the common form of work. */
type WorkOf<Row> = (row: Row, live: Live) => Work;

/** The newest that is known: what the hub says of work that goes on, over what was read. */
function standingNow(work: Work, live: Live): Work {
  if (live === undefined) return work;
  const { standing = {} } = work;
  // A kind that counts something of its own has looked at it already.
  const now = standing.text === undefined ? live : { stalledSince: live.stalledSince };
  return { ...work, standing: { ...standing, ...now } };
}

interface WorkColumns<Row> {
  workOf: WorkOf<Row>;
  /** The newest updates from the hub by the id of the work, as `useLiveWork` returns them. */
  live: ReadonlyMap<string, JobUpdate>;
  /** The columns that say what the work is about; one of them names it. */
  subject: readonly (Column<Row> | false)[];
  /** Further columns. */
  columns?: readonly (Column<Row> | false)[] | undefined;
  /** Opens the details. Without it, the name leads to them. */
  onOpen?: ((id: string) => void) | undefined;
  /** The actions on a row beside opening its details. */
  rowActions?: ((row: Row) => ReactNode) | undefined;
  /** The work within a sentence, such as "the backup", for readers of screens. */
  nameOf?: ((row: Row) => string) | undefined;
}

/** A page that lists work of one kind: `ListPage` with the columns that all work has. */
export function WorkList<Row extends { id: string }, S extends object>({
  workOf: read,
  live,
  subject,
  columns,
  onOpen,
  rowActions,
  nameOf,
  ...list
}: Omit<ListPageProps<Row, S>, 'columns' | 'keyOf'> & WorkColumns<Row>) {
  const parts = { workOf: read, live, subject, columns, onOpen, rowActions, nameOf };
  return <ListPage {...list} keyOf={({ id }) => id} columns={workColumns(parts)} />;
}

/** The columns that all work has, for a list in a part of a page. */
export function workColumns<Row extends { id: string }>({
  workOf: read,
  live,
  subject,
  columns = [],
  onOpen,
  rowActions,
  nameOf = () => 'the work',
}: WorkColumns<Row>): (Column<Row> | false)[] {
  const workIn = (row: Row) => standingNow(read(row, live.get(row.id)), live.get(row.id));
  return [
    ...subject,
    {
      header: 'State',
      width: 140,
      cell: (row) => <WorkState work={workIn(row)} label={`Progress of ${nameOf(row)}`} />,
    },
    { header: 'What is going on', cell: (row) => <Outline work={workIn(row)} /> },
    ...columns,
    { header: 'Created', width: 110, cell: (row) => <When at={workIn(row).createdAt} /> },
    {
      header: 'Took',
      width: 100,
      cell: (row) => {
        const { startedAt = null, finishedAt = null } = workIn(row);
        return formatSpan(startedAt, finishedAt) ?? '–';
      },
    },
    onOpen !== undefined && {
      header: rowActions === undefined ? 'Details' : 'Actions',
      width: rowActions === undefined ? 80 : 170,
      cell: (row) => (
        <Group gap={2} wrap="nowrap">
          {rowActions?.(row)}
          <Action inRow onClick={() => onOpen(row.id)}>
            Details
          </Action>
        </Group>
      ),
    },
  ];
}

/** A name in a list that opens the details of its row. */
export function OpenName({ onOpen, children }: { onOpen: () => void; children: ReactNode }) {
  return (
    <Anchor component="button" inherit ta="left" style={{ overflowWrap: 'anywhere' }} onClick={onOpen}>
      {children}
    </Anchor>
  );
}

interface Reading<Row> {
  /** How it is read, as `apiQuery` says it. */
  read: (id: string) => UndefinedInitialDataOptions<Row>;
  /** The other queries that show the work, which are fetched again when it changes. */
  reads: Parameters<typeof useRefreshOn>[1];
  /** How often it is read again as long as it goes on, or always, for what changes without news. */
  every?: { ms: number; isAlways?: boolean };
  /** Which changes count as news. Without it, those of the state. */
  newsOf?: (live: JobUpdate) => string;
  onOutput?: (output: JobOutput) => void;
}

interface Shown<Row> {
  /** The work within a sentence, such as "the backup". */
  name: string;
  /** As `name`, where a list has work of several kinds. */
  nameOf?: (row: Row) => string;
  workOf: WorkOf<Row>;
  heading: (row: Row) => ReactNode;
  /** Stops it, as long as it goes on. Without a question, it stops without asking. */
  cancel?: (row: Row) => Omit<Order, 'label'>;
  /** Begins it again, after it has ended. */
  retry?: (row: Row) => Order | false;
  /** Other things to do with it. */
  actions?: (row: Row) => ReactNode;
  /** A note that explains the state to the person who looks at it. */
  note?: (row: Row) => ReactNode;
  facts: (row: Row) => Facts;
  /** The part of the drawer for this kind of work only: its results, its output. */
  children?: (row: Row, live: Live) => ReactNode;
}

/** Something that can be done with work. */
interface Order {
  label: string;
  refusal: string | undefined;
  run: () => Promise<unknown>;
  question?: { title: string; text: string; confirm: string };
}

/** The work that is open in a list, in a drawer at the right of it. */
export function WorkDrawer<Row extends { id: string }>({
  opened,
  onClose,
  title,
  size = 'lg',
  ...work
}: Reading<Row> &
  Shown<Row> & { opened: string | undefined; onClose: () => void; title: string; size?: string }) {
  return (
    <DetailsDrawer opened={opened} onClose={onClose} title={title} size={size}>
      {(id) => <WorkDetails key={id} id={id} {...work} />}
    </DetailsDrawer>
  );
}

const stateOf = ({ state }: JobUpdate): string => state;

/** One work: how it stands, what can be done with it, what went wrong, and when it was; kept up to date. */
export function WorkDetails<Row extends { id: string }>({
  id,
  read,
  reads,
  every,
  newsOf = stateOf,
  onOutput,
  ...shown
}: Reading<Row> & Shown<Row> & { id: string }) {
  const [live] = useLiveJobs({ jobId: id }, onOutput);
  const query = useQuery({
    ...read(id),
    refetchInterval: ({ state: { data } }) =>
      every !== undefined &&
      data !== undefined &&
      (every.isAlways === true || shown.workOf(data, live).stage !== 'idle')
        ? every.ms
        : false,
  });
  useRefreshOn(live === undefined ? '' : newsOf(live), reads);
  return (
    <Loaded query={query} what={`Reading ${shown.name}`}>
      {(row) => <WorkReport row={row} live={live} {...shown} />}
    </Loaded>
  );
}

/** As `WorkDetails`, of work that was read already. */
export function WorkReport<Row extends { id: string }>({
  row,
  live,
  name: usual,
  nameOf = () => usual,
  workOf: readWork,
  heading,
  cancel,
  retry,
  actions,
  note,
  facts,
  children,
}: Shown<Row> & { row: Row; live: Live }) {
  const work = standingNow(readWork(row, live), live);
  const { stage, startedAt = null, finishedAt = null, startedBy } = work;
  const name = nameOf(row);
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Group gap="xs">
          <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }}>
            {heading(row)}
          </Title>
          <StateBadge {...work.state} />
        </Group>
        {stage === 'idle' ? (
          <Retry order={retry?.(row) ?? false} />
        ) : (
          cancel !== undefined && <Cancel order={cancel(row)} work={work} />
        )}
      </Group>
      {actions?.(row)}
      {note !== undefined && <Sentence>{note(row)}</Sentence>}
      <WorkStanding work={work} name={name} />
      <Cause
        error={work.error ?? null}
        {...(work.errorTitle === undefined ? {} : { title: work.errorTitle })}
      />
      {children?.(row, live)}
      <FactTable
        label={`About ${name}`}
        facts={[
          ...facts(row),
          ['Started by', startedBy],
          ['Created', formatTime(new Date(work.createdAt))],
          ['Started', startedAt === null ? undefined : formatTime(new Date(startedAt))],
          ['Ended', finishedAt === null ? undefined : formatTime(new Date(finishedAt))],
          ['Took', formatSpan(startedAt, finishedAt)],
          ['Number', row.id],
        ]}
      />
    </Stack>
  );
}

const Sentence = ({ children }: { children: ReactNode }) =>
  children === undefined || children === false ? null : <Text size="sm">{children}</Text>;

/** Why work has not begun, or how far it is. */
export function WorkStanding({ work, name }: { work: Work; name: string }) {
  const { stage, waits, standing = {}, cancelRequestedAt = null } = work;
  if (stage === 'idle') return null;
  return (
    <>
      {stage === 'waiting' ? (
        <Sentence>{waits ?? 'It waits for its turn.'}</Sentence>
      ) : (
        <WorkProgress label={`Progress of ${name}`} standing={standing} />
      )}
      {cancelRequestedAt !== null && (
        <Sentence>
          It was asked to stop <When at={cancelRequestedAt} />, and stops at its next step.
        </Sentence>
      )}
    </>
  );
}

const BUTTON = { variant: 'default' } as const;

function Cancel({ order, work }: { order: Omit<Order, 'label'>; work: Work }) {
  const { refusal, run, question } = order;
  const asked = (work.cancelRequestedAt ?? null) === null ? undefined : 'It was asked to stop already.';
  const refused = refusal ?? asked;
  return question === undefined ? (
    <RunAction {...BUTTON} refusal={refused} run={run}>
      Cancel
    </RunAction>
  ) : (
    <ConfirmAction
      {...BUTTON}
      refusal={refused}
      title={question.title}
      question={question.text}
      confirm={question.confirm}
      run={run}
    >
      Cancel
    </ConfirmAction>
  );
}

function Retry({ order }: { order: Order | false }) {
  if (order === false) return null;
  const { label, refusal, run } = order;
  return (
    <RunAction {...BUTTON} refusal={refusal} run={run}>
      {label}
    </RunAction>
  );
}
