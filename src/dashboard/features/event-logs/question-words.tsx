import type { Answer } from '../../api/index.ts';
import { StateBadge, type Tone } from '../../ui/index.ts';

/** Standing questions in the words of people. */

export type Question = Answer<'GET /event-log-questions'>['data'][number];
export type QuestionDevice = Answer<'GET /event-log-questions/{id}/devices'>['data'][number];

export const QUESTION_OUTCOMES = [
  'waiting',
  'asked',
  'answered',
  'failed',
  'never_came',
  'cancelled',
] as const;
type Outcome = QuestionDevice['outcome'];

export const OUTCOME_LOOKS: Record<Outcome, { label: string; tone: Tone }> = {
  waiting: { label: 'Waiting', tone: 'neutral' },
  asked: { label: 'Being asked', tone: 'busy' },
  answered: { label: 'Answered', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
  never_came: { label: 'Never came', tone: 'warning' },
  cancelled: { label: 'Cancelled', tone: 'neutral' },
};

const STATUS: Record<Question['status'], { label: string; tone: Tone }> = {
  open: { label: 'Open', tone: 'busy' },
  over: { label: 'Over', tone: 'good' },
  cancelled: { label: 'Cancelled', tone: 'neutral' },
};

export const QuestionStatus = ({ status }: Pick<Question, 'status'>) => <StateBadge {...STATUS[status]} />;

export const nameOfQuestion = ({ name, query }: Pick<Question, 'name' | 'query'>): string =>
  name ?? `Entries of ${query.name}`;

/** "3 of 10 answered, 6 waiting, 1 failed" */
export function progressText({ devices, outcomes }: Pick<Question, 'devices' | 'outcomes'>): string {
  const { waiting, asked, answered, failed, neverCame, cancelled, gone } = outcomes;
  const rest = [
    [waiting, 'waiting'],
    [asked, 'being asked'],
    [failed, 'failed'],
    [neverCame, 'never came'],
    [cancelled, 'cancelled'],
    [gone, 'gone'],
  ] as const;
  const parts = rest.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return [`${answered} of ${devices} answered`, ...parts].join(', ');
}

/** The conditions of a question: "level error, text disk". */
export function conditionsText({ name, ...conditions }: Question['query']): string {
  const parts = Object.entries(conditions).map(
    ([field, value]) => `${field} ${Array.isArray(value) ? value.join(' or ') : String(value)}`,
  );
  return [`Log ${name}`, ...parts].join(', ');
}
