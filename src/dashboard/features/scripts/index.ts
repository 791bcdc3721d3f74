export { scriptPages } from './scripts.pages.ts';
export { CodeField, tooLong } from './code-field.tsx';
export { givenBy, unfit, Variables, variablesOf, type Given, type Variable } from './variables.tsx';
export {
  type Outcome,
  outcomesOfCommands,
  type OutcomeStanding,
  type Run,
  standingOf,
  type Started,
  startedOrRefused,
} from './outcome.ts';
