import { Text } from '@mantine/core';
import { IconTrash, IconX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { apiQuery, useApiChange, useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  ConfirmAction,
  formatCount,
  ListPage,
  Loaded,
  StateBadge,
  TextLink,
  useAddress,
  When,
} from '../../ui/index.ts';
import {
  conditionsText,
  nameOfQuestion,
  OUTCOME_LOOKS,
  QUESTION_OUTCOMES,
  progressText,
  type Question,
  QuestionStatus,
} from './question-words.tsx';

const route = getRouteApi('/signed-in/event-logs/questions');
const REFRESH_MS = 10_000;

/** What became of a question at each device. */
export function QuestionPage({ id }: { id: string }) {
  const question = useQuery({
    ...apiQuery('GET /event-log-questions/{id}', { params: { id } }),
    refetchInterval: ({ state }) => (state.data?.status === 'open' ? REFRESH_MS : false),
  });
  return (
    <Loaded query={question} what="Reading the question">
      {(data) => <QuestionDevices question={data} />}
    </Loaded>
  );
}

function QuestionDevices({ question }: { question: Question }) {
  const { id } = question;
  const address = useAddress(route.useSearch());
  const { outcome, page = 1 } = address.search;
  const names = useNames();
  const devices = useList(
    'GET /event-log-questions/{id}/devices',
    { params: { id }, query: { outcome: outcome?.join(','), page: String(page) } },
    question.status === 'open' ? REFRESH_MS : undefined,
  );
  return (
    <ListPage
      title={nameOfQuestion(question)}
      description={`${conditionsText(question.query)}. At most ${question.atMostRowsPerDevice} entries of each device.`}
      actions={<QuestionActions question={question} />}
      notice={
        <Text size="sm" component="output">
          <QuestionStatus status={question.status} /> {progressText(question)}. Asked by {question.authorName}{' '}
          <When at={question.createdAt} />, ends <When at={question.endsAt} />.
        </Text>
      }
      query={devices}
      noun="devices"
      keyOf={({ deviceId }) => deviceId}
      address={address}
      facets={[
        {
          kind: 'chips',
          name: 'outcome',
          label: 'Outcome',
          options: [...QUESTION_OUTCOMES],
        },
      ]}
      empty={{ title: 'No devices', text: 'All devices of the question are gone.' }}
      columns={[
        {
          header: 'Device',
          isName: true,
          cell: ({ deviceId, displayName, hostname, outcome: reached }) =>
            reached === 'answered' ? (
              <TextLink size="sm" to="/event-logs/questions" search={{ question: id, device: deviceId }}>
                {displayName ?? hostname}
              </TextLink>
            ) : (
              (displayName ?? hostname)
            ),
        },
        { header: 'Organization', cell: ({ orgId }) => names.organization(orgId) },
        {
          header: 'Outcome',
          width: 130,
          cell: ({ outcome: reached }) => <StateBadge {...OUTCOME_LOOKS[reached]} />,
        },
        {
          header: 'Entries',
          align: 'right',
          width: 80,
          cell: ({ entries, outcome: reached }) => (reached === 'answered' ? formatCount(entries) : '–'),
        },
        { header: 'Reason', cell: ({ message }) => message ?? '' },
        { header: 'Asked', width: 110, cell: ({ askedAt }) => <When at={askedAt} never="Not yet" /> },
      ]}
    />
  );
}

const REFRESHES = [
  'GET /event-log-questions',
  'GET /event-log-questions/{id}',
  'GET /event-log-questions/{id}/devices',
] as const;

function QuestionActions({ question }: { question: Question }) {
  const navigate = useNavigate();
  const { user } = useMe();
  const others = useRefusal('devices:write');
  const refusal = question.createdBy === user.id ? undefined : others;
  const cancel = useApiChange('POST /event-log-questions/{id}/cancel', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /event-log-questions/{id}', {
    refreshes: ['GET /event-log-questions'],
  });
  const params = { id: question.id };
  return (
    <>
      {question.status === 'open' && (
        <ConfirmAction
          icon={IconX}
          variant="default"
          refusal={refusal}
          title="Cancel the question"
          question="Devices that have not answered are not asked any more. Answers stay."
          confirm="Cancel the question"
          run={() => cancel.mutateAsync({ params })}
        >
          Cancel
        </ConfirmAction>
      )}
      <ConfirmAction
        icon={IconTrash}
        variant="default"
        refusal={refusal}
        title="Delete the question"
        question="The question and all answers are deleted. Devices that have not answered are not asked any more."
        confirm="Delete"
        run={async () => {
          await remove.mutateAsync({ params });
          await navigate({ to: '/event-logs/questions' });
        }}
      >
        Delete
      </ConfirmAction>
    </>
  );
}
