export { GettingStarted, NextStep } from './getting-started.tsx';
