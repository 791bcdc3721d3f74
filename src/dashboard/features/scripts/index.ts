export { scriptPages } from './scripts.pages.ts';
export { givenBy, isName, type Given, type Variable } from './run/variable.ts';
export { Variables } from './run/variables.tsx';
export {
  type Outcome,
  outcomesOfCommands,
  type OutcomeStanding,
  type Run,
  standingOf,
  type Started,
  startedOrRefused,
} from './run/outcome.ts';
