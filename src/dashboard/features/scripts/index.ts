export { scriptPages } from './scripts.pages.ts';
export { givenBy, isName, Variables, type Given, type Variable } from './variables.tsx';
export {
  type Outcome,
  outcomesOfCommands,
  type OutcomeStanding,
  type Run,
  standingOf,
  type Started,
  startedOrRefused,
} from './outcome.ts';
