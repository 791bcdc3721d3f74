import { getRouteApi } from '@tanstack/react-router';
import { useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { ButtonLink, ListPage, TextLink, useAddress, When } from '../../ui/index.ts';
import { AnswerPage } from './answer-page.tsx';
import { QuestionPage } from './question-page.tsx';
import { nameOfQuestion, progressText, QuestionStatus } from './question-words.tsx';

const route = getRouteApi('/signed-in/event-logs/questions');

/** The queries that devices are asked as they come back, one of them, or what a device has answered to it. */
export function QuestionsPage() {
  const { question, device } = route.useSearch();
  if (question === undefined) return <AllQuestions />;
  if (device === undefined) return <QuestionPage id={question} />;
  return <AnswerPage questionId={question} deviceId={device} />;
}

function AllQuestions() {
  const address = useAddress(route.useSearch());
  const { page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const questions = useList('GET /event-log-questions', { query: { orgId, page: String(page) } });
  return (
    <ListPage
      title="Standing questions"
      description="Queries of event logs that devices are asked as they come back."
      actions={
        <ButtonLink to="/event-logs" variant="default">
          Ask devices now
        </ButtonLink>
      }
      query={questions}
      noun="standing questions"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No standing questions yet',
        text: 'Ask many devices on the page of event logs. Those that are offline can be asked when they come back.',
      }}
      columns={[
        {
          header: 'Question',
          isName: true,
          cell: (question) => (
            <TextLink size="sm" to="/event-logs/questions" search={{ question: question.id }}>
              {nameOfQuestion(question)}
            </TextLink>
          ),
        },
        { header: 'State', width: 110, cell: ({ status }) => <QuestionStatus status={status} /> },
        { header: 'Progress', cell: progressText },
        {
          header: 'Organization',
          cell: (question) =>
            question.orgId === null ? 'All organizations' : names.organization(question.orgId),
        },
        { header: 'Asked by', cell: ({ authorName }) => authorName },
        { header: 'Asked', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
        { header: 'Ends', width: 110, cell: ({ endsAt }) => <When at={endsAt} /> },
      ]}
    />
  );
}
